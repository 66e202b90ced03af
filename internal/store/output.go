package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Output reads what there is to read of a run of a task: how it has ended, or what
// it has said so far. whole is the answer as it is, empty if there is none.
func (s *Store) Output(ctx context.Context, t *tree.Task) (out tree.Output, cut bool, err error) {
	err = s.db.snapshot(ctx, func(tx reader) error {
		r := &sessionReader{tx: tx, session: t.Session}
		var err error
		if t.State.Terminal() {
			if out, err = r.ended(ctx, tree.ChildRun{Task: t.ID, Run: t.Run}); err != nil {
				return err
			}
		} else {
			out = tree.OutputOf(t)
			if t.Kind == tree.KindShell {
				out.Prompt, err = r.prompt(ctx, tree.ChildRun{Task: t.ID, Run: t.Run})
			} else {
				err = r.said(ctx, &out, tree.ChildRun{Task: t.ID, Run: t.Run}, t.NextOrdinal-1)
			}
			if err != nil {
				return err
			}
		}
		cut = strings.HasPrefix(out.Output, tree.CutMark)
		return nil
	})
	return out, cut, err
}

// Inbox reads what waits for a task, oldest first.
func (s *Store) Inbox(ctx context.Context, session tree.SessionID, task tree.TaskID) ([]tree.InboxEntry, error) {
	var found []tree.InboxEntry
	err := s.db.read(ctx, "inbox", []any{idColumn(&session), idColumn(&task)}, func(row row) error {
		e, err := inboxEntry(row)
		if err == nil {
			found = append(found, *e)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	return found, nil
}

// limit is how much of an output the session shows.
func (r *sessionReader) limit(ctx context.Context) (int, error) {
	if r.shown > 0 {
		return r.shown, nil
	}
	s, err := one(ctx, r.tx, tree.ErrNoSession, "session", plainSessionRow, idColumn(&r.session))
	if err != nil {
		return 0, err
	}
	r.shown = s.Limits.Output()
	return r.shown, nil
}

// news is what a message says that tells of a run's end.
func (r *sessionReader) news(ctx context.Context, run tree.ChildRun) (string, error) {
	outcome, err := r.outcome(ctx, run)
	if err != nil {
		return "", err
	}
	t, err := one(ctx, r.tx, tree.ErrNoTask, "task", taskRow, idColumn(&r.session), idColumn(&run.Task))
	if err != nil {
		return "", err
	}
	return outcome.News(t), nil
}

// result is the text of a closed call.
func (r *sessionReader) result(ctx context.Context, c *tree.Call) (string, error) {
	switch {
	case c.ByOutcome && c.Reads:
		out, err := r.ended(ctx, c.Child)
		return out.Text(), err
	case c.ByOutcome:
		outcome, err := r.outcome(ctx, c.Child)
		return outcome.Text(), err
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

// ended is the output of a run that has ended.
func (r *sessionReader) ended(ctx context.Context, run tree.ChildRun) (tree.Output, error) {
	outcome, err := r.outcome(ctx, run)
	if err != nil {
		return tree.Output{}, err
	}
	t, err := one(ctx, r.tx, tree.ErrNoTask, "task", taskRow, idColumn(&r.session), idColumn(&run.Task))
	if err != nil {
		return tree.Output{}, err
	}
	out := outcome.Output(t)
	if outcome.Answer == "" {
		if err := r.said(ctx, &out, run, noLimit); err != nil {
			return tree.Output{}, err
		}
		return out, nil
	}
	out.Prompt, err = r.prompt(ctx, run)
	return out, err
}

// saidMessages is how many of a run's last messages are looked at for what it has said.
const saidMessages = 100

// said adds what a run was asked, and what it had said up to a message.
func (r *sessionReader) said(ctx context.Context, out *tree.Output, run tree.ChildRun, upto int) error {
	limit, err := r.limit(ctx)
	if err != nil {
		return err
	}
	if out.Prompt, err = r.prompt(ctx, run); err != nil {
		return err
	}
	rows, err := query(ctx, r.tx, "said", storedMessageRow,
		idColumn(&r.session), idColumn(&run.Task), run.Run, tree.RoleAssistant, upto, saidMessages)
	if err != nil {
		return err
	}
	var texts []string
	size := 0
	for i := range rows {
		m := &rows[i].Message
		if err := wire.DecodeBody(rows[i].body, m); err != nil {
			return err
		}
		if text := m.Text(); text != "" {
			texts = append(texts, text)
			size += len(text)
		}
		if size > limit {
			break
		}
	}
	slices.Reverse(texts)
	out.Output, _ = tree.Tail(strings.Join(texts, "\n\n"), limit, tree.TranscriptOf(r.session, run.Task))
	return nil
}

// prompt is what a run was asked to do, cut to what is shown of it.
func (r *sessionReader) prompt(ctx context.Context, run tree.ChildRun) (string, error) {
	rows, err := query(ctx, r.tx, "prompt", storedMessageRow,
		idColumn(&r.session), idColumn(&run.Task), run.Run, tree.RoleUser)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	m := &rows[0].Message
	if err := wire.DecodeBody(rows[0].body, m); err != nil {
		return "", err
	}
	return tree.PromptShown(m), nil
}
