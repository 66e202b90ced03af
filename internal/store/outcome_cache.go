package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// outcomeCache is what some last messages of a task most often tell of: what came of its calls.
// It is read with them, since each further look is a round trip. What is missing in it is read
// when it turns out to be needed.
type outcomeCache struct {
	task    tree.TaskID
	calls   []tree.Call // closed, in the order of messages and blocks
	runs    map[tree.ChildRun]*tree.Run
	answers map[messageKey]string
	prompts map[tree.ChildRun][]messageAndBody // one, or none
}

// outcomeLookups gives the look-ups of what is near a task's messages from an ordinal on.
func (r *sessionReader) outcomeLookups(task *tree.TaskID, from int) []lookup {
	n := &r.cache
	*n = outcomeCache{task: *task, runs: map[tree.ChildRun]*tree.Run{}, answers: map[messageKey]string{}}
	key := [][]any{{idColumn(&r.session), idColumn(task), from}}
	return []lookup{
		r.closedCallsLookup(&n.calls, task, from, noLimit), {"runs_called", key, n.scanRun}, {"answers_called", key, n.scanAnswer}, r.limitsLookup(),
	}
}

// loadEnd reads what there is to say of how a task's run has ended.
func (r *sessionReader) loadEnd(ctx context.Context, t *tree.Task) error {
	n, run := &r.cache, tree.ChildRun{Task: t.ID, Run: t.Run}
	*n = outcomeCache{runs: map[tree.ChildRun]*tree.Run{}, answers: map[messageKey]string{}}
	var prompts []messageAndBody
	err := r.db.load(ctx, r.limitsLookup(), r.promptLookup(&prompts, &run),
		lookup{"runs", [][]any{{idColumn(&r.session), idColumn(&run.Task), run.Run}}, n.scanRun},
		lookup{"messages", [][]any{{idColumn(&r.session), idColumn(&run.Task), t.Answer}}, n.scanAnswer})
	n.prompts = map[tree.ChildRun][]messageAndBody{run: prompts}
	return err
}

func (n *outcomeCache) scanRun(row row) error {
	var run tree.Run
	err := row.Scan(plainRunRow(&run)...)
	n.runs[tree.ChildRun{Task: run.Task, Run: run.Run}] = &run
	return err
}

func (n *outcomeCache) scanAnswer(row row) error {
	var m messageAndBody
	if err := row.Scan(storedMessageRow(&m)...); err != nil {
		return err
	}
	return n.addAnswer(&m)
}

// addAnswer takes in a message that a run has ended with.
func (n *outcomeCache) addAnswer(m *messageAndBody) error {
	if err := m.decodeBody(); err != nil {
		return err
	}
	n.answers[messageKey{m.Task, m.Ordinal}] = m.Text()
	return nil
}

// limitsLookup looks up how much of an output is shown.
func (r *sessionReader) limitsLookup() lookup {
	return lookup{"session", [][]any{{idColumn(&r.session)}}, func(row row) error {
		var s tree.Session
		err := row.Scan(plainSessionRow(&s)...)
		r.outputLimit = s.Limits.Output()
		return err
	}}
}

// promptLookup looks up what a run was asked to do.
func (r *sessionReader) promptLookup(to *[]messageAndBody, run *tree.ChildRun) lookup {
	return all(to, "prompt", storedMessageRow, idColumn(&r.session), idColumn(&run.Task), run.Run, tree.RoleUser)
}

// closedCallsLookup is the look-up of the closed calls of some of a task's messages.
func (r *sessionReader) closedCallsLookup(to *[]tree.Call, task *tree.TaskID, first, last int) lookup {
	return all(to, "calls_closed", plainCallRow, idColumn(&r.session), idColumn(task), first, last, tree.CallClosed)
}

// closedCalls gives the closedCalls calls of some of a task's messages, or of more.
func (r *sessionReader) closedCalls(ctx context.Context, task tree.TaskID, first, last int) (calls []tree.Call, err error) {
	if r.cache.task == task {
		return r.cache.calls, nil
	}
	err = r.db.load(ctx, r.closedCallsLookup(&calls, &task, first, last))
	return calls, err
}
