package store

import (
	"context"
	"errors"
	"math"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Transcript reads the messages of a task after an ordinal, up to limit of them
// if it is not 0. Tool messages and news are made whole: the results of calls,
// and the outcomes of the runs that they tell of.
func (s *Store) Transcript(ctx context.Context, session tree.SessionID, task tree.TaskID, after, limit int) ([]tree.Message, error) {
	var found []tree.Message
	err := s.db.snapshot(ctx, func(tx reader) error {
		var err error
		found, err = (&sessionReader{tx: tx, session: session}).transcript(ctx, task, after, limit)
		return err
	})
	return found, err
}

// Conversation reads what the model of a task sees, and the calls of its last
// message that are still open, in one snapshot.
func (s *Store) Conversation(ctx context.Context, session tree.SessionID, task tree.TaskID) ([]tree.Message, []tree.Call, error) {
	var messages []tree.Message
	var open []tree.Call
	err := s.db.snapshot(ctx, func(tx reader) error {
		r := &sessionReader{tx: tx, session: session}
		chain, err := r.lineage(ctx, task)
		if err != nil {
			return err
		}
		messages = transcript.Conversation(chain)
		open, err = query(ctx, tx, "calls_open", plainCallRow, idColumn(&session), idColumn(&task), tree.CallClosed)
		return err
	})
	return messages, open, err
}

// Outcome reads how a run has ended.
func (s *Store) Outcome(ctx context.Context, session tree.SessionID, run tree.ChildRun) (tree.Outcome, error) {
	var found tree.Outcome
	err := s.db.snapshot(ctx, func(tx reader) error {
		var err error
		found, err = (&sessionReader{tx: tx, session: session}).outcome(ctx, run)
		return err
	})
	return found, err
}

// sessionReader reads a session's transcripts in one snapshot.
type sessionReader struct {
	tx      reader
	session tree.SessionID
	shown   int // how much of an output is shown; 0 until it was read
}

// messageAndBody is a message as it is in its row.
type messageAndBody struct {
	tree.Message
	session tree.SessionID
	body    []byte
}

func storedMessageRow(m *messageAndBody) []any { return messageRow(&m.session, &m.Message, &m.body) }

func plainCallRow(c *tree.Call) []any { return callRow(new(tree.SessionID), c) }

func plainRunRow(r *tree.Run) []any { return runRow(new(tree.SessionID), r) }

// noLimit is a limit that no result reaches.
const noLimit = math.MaxInt64

// transcript reads the message before those asked for too, since a tool message
// is made of the calls of the message before it.
func (r *sessionReader) transcript(ctx context.Context, task tree.TaskID, after, limit int) ([]tree.Message, error) {
	switch {
	case limit == 0:
		limit = noLimit
	case after > 0:
		limit++
	}
	rows, err := query(ctx, r.tx, "messages_from", storedMessageRow, idColumn(&r.session), idColumn(&task), after, limit)
	if err != nil {
		return nil, err
	}
	messages := make([]tree.Message, 0, len(rows))
	for i := range rows {
		m := &rows[i].Message
		if err := wire.DecodeBody(rows[i].body, m); err != nil {
			return nil, err
		}
		switch {
		case m.Ordinal <= after:
		case m.Role == tree.RoleTool && i > 0:
			m.Blocks, err = r.results(ctx, &rows[i-1].Message)
		case m.Role == tree.RoleTool:
			err = errors.New("a tool message follows no message")
		case !m.News.Task.IsZero():
			var news string
			news, err = r.news(ctx, m.News)
			m.Blocks = []tree.Block{tree.Text{Text: news}}
		}
		if err != nil {
			return nil, err
		}
		if m.Ordinal > after {
			messages = append(messages, *m)
		}
	}
	return messages, nil
}

// results gives the closed calls of an assistant message, in the order of the calls.
func (r *sessionReader) results(ctx context.Context, asked *tree.Message) ([]tree.Block, error) {
	calls, err := query(ctx, r.tx, "calls_closed", plainCallRow,
		idColumn(&r.session), idColumn(&asked.Task), asked.Ordinal, tree.CallClosed)
	if err != nil {
		return nil, err
	}
	blocks := make([]tree.Block, len(calls))
	for i, c := range calls {
		result := tree.ToolResult{Block: c.Ref.Block, Text: c.Text, IsError: c.IsError}
		if use, ok := asked.Blocks[c.Ref.Block].(tree.ToolUse); ok {
			result.ProviderID = use.ProviderID
		}
		if result.Text, err = r.result(ctx, &c); err != nil {
			return nil, err
		}
		blocks[i] = result
	}
	return blocks, nil
}

// errNoOutcome says that a run has not ended, or never was.
var errNoOutcome = errors.New("the run has no outcome")

func (r *sessionReader) outcome(ctx context.Context, run tree.ChildRun) (tree.Outcome, error) {
	found, err := one(ctx, r.tx, errNoOutcome, "run", plainRunRow,
		idColumn(&r.session), idColumn(&run.Task), run.Run)
	if err != nil {
		return tree.Outcome{}, err
	}
	outcome := tree.Outcome{Run: *found, Session: r.session}
	if outcome.Limit, err = r.limit(ctx); err != nil {
		return tree.Outcome{}, err
	}
	if found.Answer == 0 {
		return outcome, nil
	}
	answer, err := one(ctx, r.tx, errNoOutcome, "message", storedMessageRow,
		idColumn(&r.session), idColumn(&run.Task), found.Answer)
	if err != nil {
		return tree.Outcome{}, err
	}
	if err := wire.DecodeBody(answer.body, &answer.Message); err != nil {
		return tree.Outcome{}, err
	}
	outcome.Answer = answer.Text()
	return outcome, nil
}
