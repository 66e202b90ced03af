package store

import (
	"context"
	"errors"

	"github.com/coppice-run/coppice/internal/tree"
)

// errNoOutcome says that a run has not ended or does not exist.
var errNoOutcome = errors.New("the run has no outcome")

func (r *sessionReader) outcome(ctx context.Context, run tree.ChildRun) (tree.Outcome, error) {
	found, err := r.outcomes(ctx, []tree.ChildRun{run})
	return found[run], err
}

// outcomes reads how runs have ended. It fails if one of them has no outcome.
func (r *sessionReader) outcomes(ctx context.Context, runs []tree.ChildRun) (map[tree.ChildRun]tree.Outcome, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	ended, err := r.ends(ctx, runs)
	if err != nil {
		return nil, err
	}
	answers, err := r.answers(ctx, ended)
	if err != nil {
		return nil, err
	}
	found := make(map[tree.ChildRun]tree.Outcome, len(ended))
	for _, run := range ended {
		outcome := tree.Outcome{Run: run, Session: r.session, Limit: r.outputLimit}
		if run.Answer > 0 {
			answer, there := answers[messageKey{run.Task, run.Answer}]
			if !there {
				return nil, errNoOutcome
			}
			outcome.SetAnswerText(answer)
		}
		found[tree.ChildRun{Task: run.Task, Run: run.Run}] = outcome
	}
	for _, run := range runs {
		if _, there := found[run]; !there {
			return nil, errNoOutcome
		}
	}
	return found, nil
}

// ends reads the rows of ended runs, and how much of an answer is shown.
func (r *sessionReader) ends(ctx context.Context, runs []tree.ChildRun) ([]tree.Run, error) {
	var sessions []tree.Session
	ended := make([]tree.Run, 0, len(runs))
	var keys [][]any
	for i := range runs {
		if run, held := r.cache.runs[runs[i]]; held {
			ended = append(ended, *run)
			continue
		}
		keys = append(keys, []any{idColumn(&r.session), idColumn(&runs[i].Task), runs[i].Run})
	}
	if len(keys) == 0 && r.outputLimit > 0 {
		return ended, nil
	}
	err := r.db.load(ctx, all(&sessions, "session", plainSessionRow, idColumn(&r.session)), each(&ended, "runs", plainRunRow, keys))
	if err != nil {
		return nil, err
	}
	if len(sessions) == 0 {
		return nil, tree.ErrNoSession
	}
	r.outputLimit = sessions[0].Limits.Output()
	return ended, nil
}

// messageKey names a message of a session.
type messageKey struct {
	task    tree.TaskID
	ordinal int
}

// answers reads the texts of the answers with which runs have ended.
func (r *sessionReader) answers(ctx context.Context, ended []tree.Run) (map[messageKey]string, error) {
	texts := make(map[messageKey]string, len(ended))
	var rows []messageAndBody
	var keys [][]any
	for i := range ended {
		if ended[i].Answer == 0 {
			continue
		}
		key := messageKey{ended[i].Task, ended[i].Answer}
		if text, held := r.cache.answers[key]; held {
			texts[key] = text
			continue
		}
		keys = append(keys, []any{idColumn(&r.session), idColumn(&ended[i].Task), ended[i].Answer})
	}
	if err := r.db.load(ctx, each(&rows, "messages", storedMessageRow, keys)); err != nil {
		return nil, err
	}
	for i := range rows {
		m := &rows[i]
		if err := m.decodeBody(); err != nil {
			return nil, err
		}
		texts[messageKey{m.Task, m.Ordinal}] = m.Text()
	}
	return texts, nil
}
