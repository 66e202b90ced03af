package store

import (
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// TaskStatus is the state of a task's current run.
type TaskStatus struct {
	Task  tree.TaskID
	Run   int
	State tree.State
}

// TaskStatusOf gives the status of a task that was read.
func TaskStatusOf(t *tree.Task) TaskStatus { return TaskStatus{t.ID, t.Run, t.State} }

func standingRow(s *TaskStatus) []any { return []any{idColumn(&s.Task), &s.Run, &s.State} }

// TaskStatus reads the status of a task of a tenant's session; the zero task is the root. It costs
// a fraction of reading the task.
func (s *Store) TaskStatus(ctx context.Context, tenant string, session tree.SessionID, id tree.TaskID) (TaskStatus, error) {
	found, err := query(ctx, coalescingReader{s.db}, "standing", standingRow, idColumn(&session), tenant, idColumn(&id))
	if err == nil && len(found) == 0 {
		err = s.missing(ctx, tenant, session)
	}
	if err != nil {
		return TaskStatus{}, err
	}
	return found[0], nil
}

// taskAndLimits is a task with the limits of its session.
type taskAndLimits struct {
	tree.Task
	limits tree.Limits
}

func taskAndLimitsRow(t *taskAndLimits) []any { return append(taskRow(&t.Task), jsonColumn{&t.limits}) }

// TaskOf reads a task of a tenant's session; the zero task is the root.
func (s *Store) TaskOf(ctx context.Context, tenant string, session tree.SessionID, id tree.TaskID) (*tree.Task, error) {
	t, err := s.taskOf(ctx, tenant, session, id)
	if err != nil {
		return nil, err
	}
	return &t.Task, nil
}

// taskOf reads a task of a tenant's session, and more lookups in the same round trip.
func (s *Store) taskOf(ctx context.Context, tenant string, session tree.SessionID, id tree.TaskID, more ...lookup) (*taskAndLimits, error) {
	var found []taskAndLimits
	err := s.db.loadCoalesced(ctx, append(more, all(&found, "task_of_tenant", taskAndLimitsRow, idColumn(&session), tenant, idColumn(&id)))...)
	if err == nil && len(found) == 0 {
		err = s.missing(ctx, tenant, session)
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// missing says why a task of a tenant's session was not found.
func (s *Store) missing(ctx context.Context, tenant string, session tree.SessionID) error {
	if _, err := s.Session(ctx, tenant, session); err != nil {
		return err
	}
	return tree.ErrNoTask
}

// TaskAndOutput reads a task of a tenant's session, as TaskOf does, and the output of its current
// run, as Output does. If the run has ended with an answer, that takes one round trip.
func (s *Store) TaskAndOutput(ctx context.Context, tenant string, session tree.SessionID, id tree.TaskID) (*tree.Task, tree.RunOutput, error) {
	var messages []messageAndBody
	t, err := s.taskOf(ctx, tenant, session, id,
		all(&messages, "asked_and_answered", storedMessageRow, idColumn(&session), idColumn(&id), tree.RoleUser))
	if err != nil {
		return nil, tree.RunOutput{}, err
	}
	r := s.session(session)
	r.outputLimit = t.limits.Output()
	if err := r.cache.addCurrentRun(&t.Task, messages); err != nil {
		return nil, tree.RunOutput{}, err
	}
	out, err := r.output(ctx, &t.Task)
	return &t.Task, out, err
}

// RunEnd is the end of a run, for callers that have waited for it.
type RunEnd struct {
	session tree.Session
	task    tree.Task
	prompt  []messageAndBody // at most one: if it was cached
	answer  []messageAndBody // at most one: if it was committed with the end
}

// Run names the run that has ended.
func (e *RunEnd) Run() tree.ChildRun { return tree.ChildRun{Task: e.task.ID, Run: e.task.Run} }

// Session is the session after the end of the run. All waiting callers share it; it must not be
// changed.
func (e *RunEnd) Session() *tree.Session { return &e.session }

// ends gives a function that tells how the runs of a session ended with this batch.
func (b *batch) ends(id tree.SessionID, changes tree.Changes) func(tree.TaskID) *RunEnd {
	asked := map[tree.TaskID][]messageAndBody{}
	for _, r := range changes.Runs {
		asked[r.Task] = b.prompts.take(id, tree.ChildRun{Task: r.Task, Run: r.Run})
	}
	return func(task tree.TaskID) *RunEnd {
		t := changes.Tasks[task]
		if t == nil || !t.State.Terminal() {
			return nil
		}
		e := &RunEnd{session: *b.sessions[id].view.Session(), task: *t, prompt: asked[task]}
		for _, m := range changes.Messages {
			if m.Task == task && m.Ordinal == t.Answer {
				e.answer = append(e.answer, cachedMessage(id, m))
			}
		}
		return e
	}
}

// OutputAtEnd is TaskAndOutput for a task in the state in which its run ended. It reads only what
// was not cached: the prompt, and the answer if that was stored earlier. All waiting callers share
// the task; it must not be changed.
func (s *Store) OutputAtEnd(ctx context.Context, e *RunEnd) (*tree.Task, tree.RunOutput, error) {
	t := &e.task
	if ended := t.Ended(); e.prompt != nil && e.answer != nil && e.answer[0].Text() != "" && !ended.Unfinished() {
		return t, e.output(t), nil
	}
	r := s.session(t.Session)
	r.outputLimit = e.session.Limits.Output()
	if err := r.cache.addCurrentRun(t, slices.Concat(e.prompt, e.answer)); err != nil {
		return nil, tree.RunOutput{}, err
	}
	if e.prompt == nil {
		r.cache.prompts = nil // it was not looked for
	}
	out, err := r.output(ctx, t)
	return t, out, err
}

// output is the output of a run of which everything was cached.
func (e *RunEnd) output(t *tree.Task) tree.RunOutput {
	run := t.Ended()
	outcome := tree.Outcome{Run: run, Answer: run.ResultText(e.answer[0].Text()), Session: t.Session, Limit: e.session.Limits.Output()}
	out := tree.RunOutput{Output: outcome.Output(t), Answer: outcome.Answer}
	out.Prompt = tree.PromptShown(&e.prompt[0].Message)
	out.Cut = isCut(&out.Output)
	return out
}

// addCurrentRun takes in the prompt of a task's current run, and its answer if it has ended.
func (n *outcomeCache) addCurrentRun(t *tree.Task, messages []messageAndBody) error {
	run := tree.ChildRun{Task: t.ID, Run: t.Run}
	var asked []messageAndBody
	n.answers = map[messageKey]string{}
	for i := range messages {
		m := &messages[i]
		if m.Ordinal == t.Answer {
			if err := n.addAnswer(m); err != nil {
				return err
			}
		} else if m.Role == tree.RoleUser { // a later message may be there: the task was read first
			asked = append(asked, *m)
		}
	}
	n.prompts = map[tree.ChildRun][]messageAndBody{run: asked}
	if t.State.Terminal() {
		ended := t.Ended()
		n.runs = map[tree.ChildRun]*tree.Run{run: &ended}
	}
	return nil
}
