package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// waiter is one who waits for the end of a run.
type waiter struct {
	session tree.SessionID
	changed chan bool // holds one: look again, and whether a run of the task is known to have ended

	// Guarded by the hub.
	of  tree.ChildRun // of no task: not known yet
	end *store.RunEnd // of the last run of the task that has ended here, if it is known
}

// committed makes the waiter look again if a run of the task has ended, or if it is not known
// yet which task that is.
func (w *waiter) committed(t store.SessionUpdate) {
	ended := slices.Contains(t.Ended, w.of.Task)
	if ended {
		w.end = t.EndOf(w.of.Task)
	}
	if ended || w.of.Task.IsZero() {
		w.poke(ended)
	}
}

func (w *waiter) unsure() { w.poke(false) }

// poke makes the waiter look again. If it is about to look anyway, it finds out itself
// whether a run has ended.
func (w *waiter) poke(ended bool) {
	select {
	case w.changed <- ended:
	default:
	}
}

// Waited is what there is to see after a wait for a run.
type Waited struct {
	Task    *tree.Task     // as it then is, or was when the run ended
	Output  tree.RunOutput // what there is to read of the run
	Session *tree.Session  // as the end of the run has left it, if that is known without a look
}

// WaitTask waits until a run of a task, or its current one if that is not said, has ended or
// the timeout has passed.
func (s *Service) WaitTask(
	ctx context.Context, tenant string, id tree.SessionID, of tree.ChildRun, timeout time.Duration,
) (Waited, error) {
	w := &waiter{session: id, of: of, changed: make(chan bool, 1)}
	defer s.hub.join(id, w)()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	told, look := false, !s.hub.underWay(tenant, w)
	for ; ; look = true {
		over := waiting.Err() != nil
		if look || over {
			now, ended, err := s.look(ctx, tenant, w, told || over)
			if ended || over || err != nil {
				return now, err
			}
		}
		select {
		case told = <-w.changed:
		case <-s.stopping:
			return Waited{}, tree.ErrStopping
		case <-waiting.Done(): // what it does now is for the last look to say
		}
	}
}

// look looks whether the run has ended that somebody waits for. Unless the task is likely to be given it first looks how far that is, which costs a
// fraction of reading it.
func (s *Service) look(
	ctx context.Context, tenant string, w *waiter, likely bool,
) (seen Waited, ended bool, err error) {
	if end := s.hub.ended(w); end != nil {
		t, out, err := s.Store.OutputAtEnd(ctx, end)
		return Waited{t, out, end.Session()}, true, err
	}
	if !likely {
		now, err := s.Store.TaskStatus(ctx, tenant, w.session, w.of.Task)
		if err != nil || !s.past(w, now) {
			return Waited{}, false, err
		}
	}
	t, out, err := s.Store.TaskAndOutput(ctx, tenant, w.session, w.of.Task)
	if err != nil {
		return Waited{}, false, err
	}
	ended = s.past(w, store.TaskStatusOf(t))
	if t.Run > w.of.Run {
		t, out, err = s.outputOf(ctx, t, w.of.Run)
	}
	return Waited{Task: t, Output: out}, ended, err
}

// past reports whether a task has come past the run that somebody waits for, which is its
// current one if they have not said.
func (s *Service) past(w *waiter, now store.TaskStatus) bool {
	of := tree.ChildRun{Task: now.Task, Run: w.of.Run}
	if of.Run == 0 {
		of.Run = now.Run
	}
	s.hub.narrow(w, of)
	return now.Run > of.Run || now.State.Terminal()
}

// WaitMessage is WaitTask for the run that takes in a message that was sent. took is false if
// that is not known yet: the message still waits when the wait is over, or the task has ended
// without it.
func (s *Service) WaitMessage(
	ctx context.Context, tenant string, id tree.SessionID, sent tree.Sent, timeout time.Duration,
) (now Waited, took bool, err error) {
	over := time.Now().Add(timeout)
	for run := sent.Run; ; {
		now, err = s.WaitTask(ctx, tenant, id, tree.ChildRun{Task: sent.Task, Run: run}, time.Until(over))
		if err != nil || !now.Task.State.Terminal() || !sent.Queued || sent.Message.IsZero() {
			return now, true, err
		}
		m, err := s.Store.MessageByID(ctx, id, sent.Task, sent.Message)
		switch {
		case errors.Is(err, tree.ErrNoMessage):
			return now, false, nil
		case err != nil:
			return Waited{}, false, err
		case m.Run == run:
			return now, true, nil
		}
		run = m.Run
	}
}

// outputOf gives a task as it was when a run of it ended that is not its last, with what
// there is to read of that.
func (s *Service) outputOf(ctx context.Context, t *tree.Task, run int) (*tree.Task, tree.RunOutput, error) {
	t, err := s.asOf(ctx, t, run)
	if err != nil {
		return nil, tree.RunOutput{}, err
	}
	out, err := s.Store.Output(ctx, t)
	return t, out, err
}

// asOf gives a task as it was when a run of it ended that is not its last.
func (s *Service) asOf(ctx context.Context, t *tree.Task, run int) (*tree.Task, error) {
	outcome, err := s.Store.Outcome(ctx, t.Session, tree.ChildRun{Task: t.ID, Run: run})
	if err != nil {
		return nil, err
	}
	r := outcome.Run
	t.Run, t.State, t.Reason, t.Detail, t.Answer = r.Run, r.State, r.Reason, r.Detail, r.Answer
	t.Iterations, t.RunUsage, t.RunTools = r.Iterations, r.Usage, r.ToolUses
	t.AcceptedAt, t.StartedAt, t.EndedAt = r.AcceptedAt, r.StartedAt, r.EndedAt
	t.Wait, t.Worker = tree.ParkedOn{}, ""
	return t, nil
}
