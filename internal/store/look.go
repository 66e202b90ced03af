package store

import (
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// Standing is how far a task has come.
type Standing struct {
	Task  tree.TaskID
	Run   int
	State tree.State
}

// StandingOf is that of a task that was read.
func StandingOf(t *tree.Task) Standing { return Standing{t.ID, t.Run, t.State} }

func standingRow(s *Standing) []any { return []any{idColumn(&s.Task), &s.Run, &s.State} }

// Standing looks how far a task of a tenant's session has come; the zero task is the
// root. It costs a fraction of what reading the task does.
func (s *Store) Standing(ctx context.Context, tenant string, session tree.SessionID, id tree.TaskID) (Standing, error) {
	found, err := query(ctx, glancing{s.db}, "standing", standingRow, idColumn(&session), tenant, idColumn(&id))
	if err == nil && len(found) == 0 {
		err = s.missing(ctx, tenant, session)
	}
	if err != nil {
		return Standing{}, err
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

// taskOf reads a task of a tenant's session, and more with the same look.
func (s *Store) taskOf(ctx context.Context, tenant string, session tree.SessionID, id tree.TaskID, more ...lookup) (*taskAndLimits, error) {
	var found []taskAndLimits
	err := s.db.glance(ctx, append(more, all(&found, "task_of_tenant", taskAndLimitsRow, idColumn(&session), tenant, idColumn(&id)))...)
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

// TaskAndOutput reads a task of a tenant's session, as TaskOf, and what there is to read
// of its current run, as Output. If the run has ended with an answer, it is one look.
func (s *Store) TaskAndOutput(ctx context.Context, tenant string, session tree.SessionID, id tree.TaskID) (*tree.Task, tree.RunOutput, error) {
	var messages []messageAndBody
	t, err := s.taskOf(ctx, tenant, session, id,
		all(&messages, "asked_and_answered", storedMessageRow, idColumn(&session), idColumn(&id), tree.RoleUser))
	if err != nil {
		return nil, tree.RunOutput{}, err
	}
	r := s.session(session)
	r.shown = t.limits.Output()
	if err := r.near.take(&t.Task, messages); err != nil {
		return nil, tree.RunOutput{}, err
	}
	out, err := r.output(ctx, &t.Task)
	return &t.Task, out, err
}

// End is how a run has ended, for those who have waited for it.
type End struct {
	session tree.Session
	task    tree.Task
	prompt  []messageAndBody // one, if it is remembered
	answer  []messageAndBody // one, if it was said with the end
}

// Run is the task's run that has ended.
func (e *End) Run() tree.ChildRun { return tree.ChildRun{Task: e.task.ID, Run: e.task.Run} }

// Session is the session as that has left it. It is the same for all who have waited, and
// nobody's to change.
func (e *End) Session() *tree.Session { return &e.session }

// ends gives what a batch knows of the ends of runs, by what it has changed of a session.
func (b *batch) ends(id tree.SessionID, changes tree.Changes) func(tree.TaskID) *End {
	asked := map[tree.TaskID][]messageAndBody{}
	for _, r := range changes.Runs {
		asked[r.Task] = b.prompts.take(id, tree.ChildRun{Task: r.Task, Run: r.Run})
	}
	return func(task tree.TaskID) *End {
		t := changes.Tasks[task]
		if t == nil || !t.State.Terminal() {
			return nil
		}
		e := &End{session: *b.sessions[id].view.Session(), task: *t, prompt: asked[task]}
		for _, m := range changes.Messages {
			if m.Task == task && m.Ordinal == t.Answer {
				e.answer = append(e.answer, remembered(id, m))
			}
		}
		return e
	}
}

// EndOf is TaskAndOutput for a task that stays as a run has left it. Only what is not
// remembered is read: what it was asked, and its answer if that was said before. The task is
// the same for all who have waited, and nobody's to change.
func (s *Store) EndOf(ctx context.Context, e *End) (*tree.Task, tree.RunOutput, error) {
	t := &e.task
	if ended := t.Ended(); e.prompt != nil && e.answer != nil && e.answer[0].Text() != "" && !ended.Unfinished() {
		return t, e.output(t), nil
	}
	r := s.session(t.Session)
	r.shown = e.session.Limits.Output()
	if err := r.near.take(t, slices.Concat(e.prompt, e.answer)); err != nil {
		return nil, tree.RunOutput{}, err
	}
	if e.prompt == nil {
		r.near.prompts = nil // it was not looked for
	}
	out, err := r.output(ctx, t)
	return t, out, err
}

// output is what there is to read of a run of which everything is remembered.
func (e *End) output(t *tree.Task) tree.RunOutput {
	run := t.Ended()
	outcome := tree.Outcome{Run: run, Answer: run.Says(e.answer[0].Text()), Session: t.Session, Limit: e.session.Limits.Output()}
	out := tree.RunOutput{Output: outcome.Output(t), Answer: outcome.Answer}
	out.Prompt = tree.PromptShown(&e.prompt[0].Message)
	out.Cut = isCut(&out.Output)
	return out
}

// take takes in how a task's current run has begun, and how it has ended if it has.
func (n *near) take(t *tree.Task, messages []messageAndBody) error {
	run := tree.ChildRun{Task: t.ID, Run: t.Run}
	var asked []messageAndBody
	n.answers = map[messageKey]string{}
	for i := range messages {
		m := &messages[i]
		if m.Ordinal == t.Answer {
			if err := n.answered(m); err != nil {
				return err
			}
		} else if m.Role == tree.RoleUser { // the task may be older than what it has said
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
