package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// waiter waits for the end of a run.
type waiter struct {
	session tree.SessionID
	changed chan bool // holds one: look again; the value says whether a run of the task is known to have ended

	// Guarded by the hub.
	target tree.ChildRun // the zero task: not known yet
	end    *store.RunEnd // the end of the task's last run that ended here, if it is known
}

// onCommit makes the waiter look again if a run of its task has ended, if its task is not known yet,
// or if the session is closed, so that a run that was not started never will be.
func (w *waiter) onCommit(t store.SessionUpdate) {
	ended := slices.Contains(t.Ended, w.target.Task)
	if ended {
		w.end = t.EndOf(w.target.Task)
	}
	if ended || t.Closed || w.target.Task.IsZero() {
		w.wake(ended)
	}
}

func (w *waiter) onMayHaveChanged() { w.wake(false) }

// wake makes the waiter look again. If it is about to look anyway, it finds out itself whether a
// run has ended.
func (w *waiter) wake(ended bool) {
	select {
	case w.changed <- ended:
	default:
	}
}

// WaitResult is the outcome of a wait for a run.
type WaitResult struct {
	Task    *tree.Task     // as it is now, or as it was when the run ended
	Output  tree.RunOutput // the output of the run
	Session *tree.Session  // as the end of the run left it, if that is known without a read; or nil
}

// WaitTask waits until a run of a task has ended or the timeout has passed. If of names no run, it
// waits for the current one.
func (s *Service) WaitTask(
	ctx context.Context, tenant string, id tree.SessionID, of tree.ChildRun, timeout time.Duration,
) (WaitResult, error) {
	w := &waiter{session: id, target: of, changed: make(chan bool, 1)}
	defer s.hub.subscribe(id, w)()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	runEnded, check := false, !s.hub.isFirstUnderWay(tenant, w)
	for ; ; check = true {
		over := waiting.Err() != nil
		if check || over {
			result, ended, err := s.checkRun(ctx, tenant, w, runEnded || over)
			if ended || over || err != nil {
				return result, err
			}
		}
		select {
		case runEnded = <-w.changed:
		case <-s.stopping:
			return WaitResult{}, tree.ErrStopping
		case <-waiting.Done(): // the last look returns the task as it is now
		}
	}
}

// checkRun checks whether the run that a waiter waits for has ended. Unless that is likely, it
// first reads only the state of the task, which costs a fraction of reading all of it.
func (s *Service) checkRun(
	ctx context.Context, tenant string, w *waiter, likely bool,
) (seen WaitResult, ended bool, err error) {
	if end := s.hub.knownEnd(w); end != nil {
		t, out, err := s.Store.OutputAtEnd(ctx, end)
		return WaitResult{t, out, end.Session()}, true, err
	}
	if !likely {
		now, err := s.Store.TaskStatus(ctx, tenant, w.session, w.target.Task)
		if err != nil {
			return WaitResult{}, false, err
		}
		if !s.isPast(w, now) {
			return WaitResult{}, false, s.mayRun(ctx, tenant, w.session, now.State)
		}
	}
	t, out, err := s.Store.TaskAndOutput(ctx, tenant, w.session, w.target.Task)
	if err == nil {
		err = s.mayRun(ctx, tenant, w.session, t.State)
	}
	if err != nil {
		return WaitResult{}, false, err
	}
	ended = s.isPast(w, store.TaskStatusOf(t))
	if t.Run > w.target.Run {
		t, out, err = s.outputOf(ctx, t, w.target.Run)
	}
	return WaitResult{Task: t, Output: out}, ended, err
}

// mayRun refuses a wait for a task that has had no run and never will, because its session is
// closed.
func (s *Service) mayRun(ctx context.Context, tenant string, id tree.SessionID, now tree.State) error {
	if now != tree.StateNew {
		return nil
	}
	session, err := s.Store.Session(ctx, tenant, id)
	if err == nil && !session.ClosedAt.IsZero() {
		err = tree.ErrClosed.With("the task has had no run, and can have none any more")
	}
	return err
}

// isPast reports whether a task has passed the run that a waiter waits for. If the waiter has named
// no run, that becomes the current one.
func (s *Service) isPast(w *waiter, now store.TaskStatus) bool {
	of := tree.ChildRun{Task: now.Task, Run: w.target.Run}
	if of.Run == 0 {
		of.Run = now.Run
	}
	s.hub.setTarget(w, of)
	return now.Run > of.Run || now.State.Terminal()
}

// WaitMessage is WaitTask for the run that takes in a sent message. took is false if that run is
// not known: the message is still queued when the wait ends, or the task has ended without it.
func (s *Service) WaitMessage(
	ctx context.Context, tenant string, id tree.SessionID, sent tree.Sent, timeout time.Duration,
) (now WaitResult, took bool, err error) {
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
			return WaitResult{}, false, err
		case m.Run == run:
			return now, true, nil
		}
		run = m.Run
	}
}

// outputOf returns a task as it was when an earlier run of it ended, with the output of that run.
func (s *Service) outputOf(ctx context.Context, t *tree.Task, run int) (*tree.Task, tree.RunOutput, error) {
	t, err := s.taskAtEndOf(ctx, t, run)
	if err != nil {
		return nil, tree.RunOutput{}, err
	}
	out, err := s.Store.Output(ctx, t)
	return t, out, err
}

// taskAtEndOf returns a task as it was when an earlier run of it ended.
func (s *Service) taskAtEndOf(ctx context.Context, t *tree.Task, run int) (*tree.Task, error) {
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
