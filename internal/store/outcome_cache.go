package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// outcomeCache holds what the last messages of a task usually refer to: the results of its calls.
// They are read together with the messages, because each further read is a round trip. What is
// missing is read when it turns out to be needed.
type outcomeCache struct {
	task    tree.TaskID
	calls   []tree.Call // closed, in the order of messages and blocks
	runs    map[tree.ChildRun]*tree.Run
	answers map[messageKey]string
	prompts map[tree.ChildRun][]messageAndBody // at most one each
}

// outcomeLookups gives the lookups that fill the cache for a task's messages, starting at an
// ordinal.
func (r *sessionReader) outcomeLookups(task *tree.TaskID, from int) []lookup {
	n := &r.cache
	*n = outcomeCache{task: *task, runs: map[tree.ChildRun]*tree.Run{}, answers: map[messageKey]string{}}
	key := [][]any{{idColumn(&r.session), idColumn(task), from}}
	return []lookup{
		r.closedCallsLookup(&n.calls, task, from, noLimit), {"runs_called", key, n.scanRun}, {"answers_called", key, n.scanAnswer}, r.limitsLookup(),
	}
}

// loadEnd reads what describes the end of a task's run.
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

// addAnswer takes in the message that a run has ended with.
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

// promptLookup looks up the prompt of a run.
func (r *sessionReader) promptLookup(to *[]messageAndBody, run *tree.ChildRun) lookup {
	return all(to, "prompt", storedMessageRow, idColumn(&r.session), idColumn(&run.Task), run.Run, tree.RoleUser)
}

// closedCallsLookup looks up the closed calls of a range of a task's messages.
func (r *sessionReader) closedCallsLookup(to *[]tree.Call, task *tree.TaskID, first, last int) lookup {
	return all(to, "calls_closed", plainCallRow, idColumn(&r.session), idColumn(task), first, last, tree.CallClosed)
}

// closedCalls gives the closed calls of a range of a task's messages; the result may contain more.
func (r *sessionReader) closedCalls(ctx context.Context, task tree.TaskID, first, last int) (calls []tree.Call, err error) {
	if r.cache.task == task {
		return r.cache.calls, nil
	}
	err = r.db.load(ctx, r.closedCallsLookup(&calls, &task, first, last))
	return calls, err
}
