package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// near is what some last messages of a task most often tell of: what came of its calls.
// It is read with them, since each further look is a round trip. What is missing in it is read
// when it turns out to be needed.
type near struct {
	task    tree.TaskID
	calls   []tree.Call // closed, in the order of messages and blocks
	runs    map[tree.ChildRun]*tree.Run
	answers map[messageKey]string
	prompts map[tree.ChildRun][]messageAndBody // one, or none
}

// around gives the look-ups of what is near a task's messages from an ordinal on.
func (r *sessionReader) around(task *tree.TaskID, from int) []lookup {
	n := &r.near
	*n = near{task: *task, runs: map[tree.ChildRun]*tree.Run{}, answers: map[messageKey]string{}}
	key := [][]any{{idColumn(&r.session), idColumn(task), from}}
	return []lookup{
		r.callsClosed(&n.calls, task, from, noLimit), {"runs_called", key, n.takeRun}, {"answers_called", key, n.takeAnswer}, r.limits(),
	}
}

// end reads what there is to say of how a task's run has ended.
func (r *sessionReader) end(ctx context.Context, t *tree.Task) error {
	n, run := &r.near, tree.ChildRun{Task: t.ID, Run: t.Run}
	*n = near{runs: map[tree.ChildRun]*tree.Run{}, answers: map[messageKey]string{}}
	var prompts []messageAndBody
	err := r.db.load(ctx, r.limits(), r.prompts(&prompts, &run),
		lookup{"runs", [][]any{{idColumn(&r.session), idColumn(&run.Task), run.Run}}, n.takeRun},
		lookup{"messages", [][]any{{idColumn(&r.session), idColumn(&run.Task), t.Answer}}, n.takeAnswer})
	n.prompts = map[tree.ChildRun][]messageAndBody{run: prompts}
	return err
}

func (n *near) takeRun(row row) error {
	var run tree.Run
	err := row.Scan(plainRunRow(&run)...)
	n.runs[tree.ChildRun{Task: run.Task, Run: run.Run}] = &run
	return err
}

func (n *near) takeAnswer(row row) error {
	var m messageAndBody
	if err := row.Scan(storedMessageRow(&m)...); err != nil {
		return err
	}
	return n.answered(&m)
}

// answered takes in a message that a run has ended with.
func (n *near) answered(m *messageAndBody) error {
	if err := m.open(); err != nil {
		return err
	}
	n.answers[messageKey{m.Task, m.Ordinal}] = m.Text()
	return nil
}

// limits looks up how much of an output is shown.
func (r *sessionReader) limits() lookup {
	return lookup{"session", [][]any{{idColumn(&r.session)}}, func(row row) error {
		var s tree.Session
		err := row.Scan(plainSessionRow(&s)...)
		r.shown = s.Limits.Output()
		return err
	}}
}

// prompts looks up what a run was asked to do.
func (r *sessionReader) prompts(to *[]messageAndBody, run *tree.ChildRun) lookup {
	return all(to, "prompt", storedMessageRow, idColumn(&r.session), idColumn(&run.Task), run.Run, tree.RoleUser)
}

// callsClosed is the look-up of the closed calls of some of a task's messages.
func (r *sessionReader) callsClosed(to *[]tree.Call, task *tree.TaskID, first, last int) lookup {
	return all(to, "calls_closed", plainCallRow, idColumn(&r.session), idColumn(task), first, last, tree.CallClosed)
}

// closed gives the closed calls of some of a task's messages, or of more.
func (r *sessionReader) closed(ctx context.Context, task tree.TaskID, first, last int) (calls []tree.Call, err error) {
	if r.near.task == task {
		return r.near.calls, nil
	}
	err = r.db.load(ctx, r.callsClosed(&calls, &task, first, last))
	return calls, err
}
