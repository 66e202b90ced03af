package store

import (
	"context"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// Output reads the output of a task's current run: its outcome, or what it has said so far.
func (s *Store) Output(ctx context.Context, t *tree.Task) (tree.RunOutput, error) {
	r := s.session(t.Session)
	if t.State.Terminal() {
		if err := r.loadEnd(ctx, t); err != nil {
			return tree.RunOutput{}, err
		}
	}
	return r.output(ctx, t)
}

// output is Output with what the cache of r has already.
func (r *sessionReader) output(ctx context.Context, t *tree.Task) (out tree.RunOutput, err error) {
	run := tree.ChildRun{Task: t.ID, Run: t.Run}
	switch {
	case t.State.Terminal():
		var outcome tree.Outcome
		if outcome, err = r.outcome(ctx, run); err == nil {
			out.Answer, out.Words = outcome.Answer, outcome.Words
			out.Output, err = r.ended(ctx, outcome, t)
		}
	case t.Kind == tree.KindShell:
		out.Output = tree.OutputOf(t)
		out.Prompt, err = r.prompt(ctx, run)
	default:
		out.Output = tree.OutputOf(t)
		err = r.said(ctx, &out.Output, run, t.NextOrdinal-1)
	}
	out.Cut = isCut(&out.Output)
	return out, err
}

func isCut(o *tree.Output) bool { return strings.HasPrefix(o.Output, tree.CutMark) }

// Inbox reads what waits for a task, oldest first.
func (s *Store) Inbox(ctx context.Context, session tree.SessionID, task tree.TaskID) ([]tree.InboxEntry, error) {
	var found []tree.InboxEntry
	err := s.db.load(ctx, lookup{"inbox", key(&session, &task), func(row row) error {
		e, err := inboxEntry(row)
		if err == nil {
			found = append(found, *e)
		}
		return err
	}})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// limit is how much of an output the session shows.
func (r *sessionReader) limit(ctx context.Context) (int, error) {
	if r.outputLimit > 0 {
		return r.outputLimit, nil
	}
	err := r.db.load(ctx, r.limitsLookup())
	if err == nil && r.outputLimit == 0 {
		err = tree.ErrNoSession
	}
	return r.outputLimit, err
}

// news is the text of a message that reports the end of a run.
func (r *sessionReader) news(ctx context.Context, outcome tree.Outcome) (string, error) {
	t, err := one(ctx, r.db, tree.ErrNoTask, "task", taskRow, idColumn(&r.session), idColumn(&outcome.Run.Task))
	if err != nil {
		return "", err
	}
	return outcome.News(t), nil
}

// result is the text of a closed call; outcome is that of its child, if the call was closed by it.
func (r *sessionReader) result(ctx context.Context, c *tree.Call, outcome tree.Outcome) (string, error) {
	switch {
	case c.ByOutcome && c.Reads:
		t, err := one(ctx, r.db, tree.ErrNoTask, "task", taskRow, idColumn(&r.session), idColumn(&c.Child.Task))
		if err != nil {
			return "", err
		}
		out, err := r.ended(ctx, outcome, t)
		return out.Text(), err
	case c.ByOutcome:
		return outcome.Text(), nil
	case c.Upto > 0:
		out, err := tree.OutputFrom(c.Text)
		if err != nil {
			return "", err
		}
		err = r.said(ctx, &out, c.Child, c.Upto)
		return out.Text(), err
	}
	return c.Text, nil
}

// ended is the output of an ended run.
func (r *sessionReader) ended(ctx context.Context, outcome tree.Outcome, t *tree.Task) (out tree.Output, err error) {
	out = outcome.Output(t)
	run := tree.ChildRun{Task: t.ID, Run: outcome.Run.Run}
	if outcome.Answer == "" {
		err = r.said(ctx, &out, run, noLimit)
	} else {
		out.Prompt, err = r.prompt(ctx, run)
	}
	return out, err
}

// saidMessages is how many of a run's last messages are read for what it has said.
const saidMessages = 100

// said adds the prompt of a run, and what the run had said up to a message.
func (r *sessionReader) said(ctx context.Context, out *tree.Output, run tree.ChildRun, upto int) error {
	limit, err := r.limit(ctx)
	if err != nil {
		return err
	}
	if out.Prompt, err = r.prompt(ctx, run); err != nil {
		return err
	}
	rows, err := query(ctx, r.db, "said", storedMessageRow,
		idColumn(&r.session), idColumn(&run.Task), run.Run, tree.RoleAssistant, upto, saidMessages)
	if err != nil {
		return err
	}
	var texts []string
	size := 0
	for i := range rows {
		if err := rows[i].decodeBody(); err != nil {
			return err
		}
		if text := rows[i].Text(); text != "" {
			texts = append(texts, text)
			size += len(text)
		}
		if size > limit {
			break
		}
	}
	slices.Reverse(texts)
	out.Output, _ = tree.Tail(strings.Join(texts, "\n\n"), limit, func() string { return tree.TranscriptOf(r.session, run.Task) })
	return nil
}

// prompt is the prompt of a run, cut to what is shown of it.
func (r *sessionReader) prompt(ctx context.Context, run tree.ChildRun) (string, error) {
	rows, held := r.cache.prompts[run]
	if !held {
		if err := r.db.load(ctx, r.promptLookup(&rows, &run)); err != nil {
			return "", err
		}
	}
	if len(rows) == 0 {
		return "", nil
	}
	if err := rows[0].decodeBody(); err != nil {
		return "", err
	}
	return tree.PromptShown(&rows[0].Message), nil
}
