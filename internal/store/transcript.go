package store

import (
	"context"
	"errors"
	"math"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Transcript reads the messages of a task after an ordinal; limit 0 reads all of them. Tool
// messages get the results of their calls, and news the outcomes of their runs.
func (s *Store) Transcript(ctx context.Context, session tree.SessionID, task tree.TaskID, after, limit int) ([]tree.Message, error) {
	return s.session(session).transcript(ctx, task, after, limit)
}

// Conversation is what a worker needs to continue a task.
type Conversation struct {
	Messages []tree.Message // as the model sees them
	Open     []tree.Call    // open calls of the last message
	Agents   []AgentVersion // the tenant's agents
}

// Conversation reads the conversation of a task of a tenant.
func (s *Store) Conversation(ctx context.Context, tenant string, session tree.SessionID, task tree.TaskID) (*Conversation, error) {
	c := &Conversation{}
	chain, err := s.session(session).lineage(ctx, task,
		all(&c.Open, "calls_open", plainCallRow, idColumn(&session), idColumn(&task), tree.CallClosed),
		all(&c.Agents, "tenant_agents", plainVersionRow, tenant))
	if err != nil {
		return nil, err
	}
	c.Messages = transcript.Conversation(chain)
	return c, nil
}

// Prompt reads the text of the prompt of a run; empty if it has none.
func (s *Store) Prompt(ctx context.Context, session tree.SessionID, run tree.ChildRun) (string, error) {
	r := s.session(session)
	var found []messageAndBody
	if err := r.db.load(ctx, r.promptLookup(&found, &run)); err != nil || len(found) == 0 {
		return "", err
	}
	err := found[0].decodeBody()
	return found[0].Text(), err
}

// Outcome reads how a run has ended.
func (s *Store) Outcome(ctx context.Context, session tree.SessionID, run tree.ChildRun) (tree.Outcome, error) {
	return s.session(session).outcome(ctx, run)
}

// sessionReader reads the transcripts of a session, with several reads: what a message refers to
// was stored before it and never changes.
type sessionReader struct {
	db          reader
	session     tree.SessionID
	outputLimit int // how much of an output is shown; 0 until it was read
	cache       outcomeCache
	held        *transcript.Cache
}

func (s *Store) session(id tree.SessionID) *sessionReader {
	return &sessionReader{db: s.db, session: id, held: s.held}
}

// messageAndBody is a message as its row has it.
type messageAndBody struct {
	tree.Message
	session tree.SessionID
	body    []byte // as stored; nil once it was decoded
}

// decodeBody decodes the body, unless that was done or the message comes from a cache.
func (m *messageAndBody) decodeBody() error {
	if m.body == nil {
		return nil
	}
	err := wire.DecodeBody(m.body, &m.Message)
	m.body = nil
	return err
}

// cachedMessage is a cached message, whose row need not be read.
func cachedMessage(session tree.SessionID, m *tree.Message) messageAndBody {
	return messageAndBody{Message: *m, session: session}
}

// cachedRowBytes is the size of a cached row in addition to its text.
const cachedRowBytes = 512

// size is how much memory a cached message takes.
func (m *messageAndBody) size() int { return cachedRowBytes + tree.TextBytes(m.Blocks) }

func storedMessageRow(m *messageAndBody) []any { return messageRow(&m.session, &m.Message, &m.body) }

func plainCallRow(c *tree.Call) []any { return callRow(new(tree.SessionID), c) }

func plainRunRow(r *tree.Run) []any { return runRow(new(tree.SessionID), r) }

// noLimit is a limit that no result reaches.
const noLimit = math.MaxInt64

// messagesLookup looks up a task's messages, starting at an ordinal.
func (r *sessionReader) messagesLookup(to *[]messageAndBody, task *tree.TaskID, from, limit int) lookup {
	return all(to, "messages_from", storedMessageRow, idColumn(&r.session), idColumn(task), from, limit)
}

// transcript reads one message more than asked for, before the first, because a tool message is
// made of the calls of the message before it.
func (r *sessionReader) transcript(ctx context.Context, task tree.TaskID, after, limit int) ([]tree.Message, error) {
	switch {
	case limit == 0:
		limit = noLimit
	case after > 0:
		limit++
	}
	var rows []messageAndBody
	if err := r.db.load(ctx, r.messagesLookup(&rows, &task, after, limit)); err != nil {
		return nil, err
	}
	return r.assemble(ctx, rows, after)
}

// assemble makes the messages after an ordinal from consecutive rows of a task.
func (r *sessionReader) assemble(ctx context.Context, rows []messageAndBody, after int) ([]tree.Message, error) {
	for i := range rows {
		if err := rows[i].decodeBody(); err != nil {
			return nil, err
		}
	}
	told, err := r.references(ctx, rows, after)
	if err != nil {
		return nil, err
	}
	messages := make([]tree.Message, 0, len(rows))
	for i := range rows {
		m := &rows[i].Message
		if m.Ordinal <= after {
			continue
		}
		switch {
		case m.Role == tree.RoleTool && i > 0:
			m.Blocks, err = r.results(ctx, &rows[i-1].Message, told)
		case m.Role == tree.RoleTool:
			err = errors.New("a tool message follows no message")
		case !m.News.Task.IsZero():
			var news string
			news, err = r.news(ctx, told.outcomes[m.News])
			m.Blocks = []tree.Block{tree.Text{Text: news}}
		}
		if err != nil {
			return nil, err
		}
		messages = append(messages, *m)
	}
	return messages, nil
}

// references are the calls and outcomes that tool messages and news refer to.
type references struct {
	calls    map[int][]tree.Call // closed calls by message, in block order
	outcomes map[tree.ChildRun]tree.Outcome
}

// references reads what the messages after an ordinal refer to, all together.
func (r *sessionReader) references(ctx context.Context, rows []messageAndBody, after int) (*references, error) {
	t := &references{calls: map[int][]tree.Call{}}
	var runs []tree.ChildRun
	var asked []*tree.Message
	for i := range rows {
		switch m := &rows[i].Message; {
		case m.Ordinal <= after:
		case m.Role == tree.RoleTool && i > 0:
			asked = append(asked, &rows[i-1].Message)
		case !m.News.Task.IsZero():
			runs = append(runs, m.News)
		}
	}
	if len(asked) > 0 {
		first, last := asked[0], asked[len(asked)-1]
		calls, err := r.closedCalls(ctx, first.Task, first.Ordinal, last.Ordinal)
		if err != nil {
			return nil, err
		}
		for _, c := range calls {
			t.calls[c.Ref.Message] = append(t.calls[c.Ref.Message], c)
			if c.ByOutcome {
				runs = append(runs, c.Child)
			}
		}
	}
	var err error
	t.outcomes, err = r.outcomes(ctx, runs)
	return t, err
}

// results gives the results of an assistant message's calls, in block order.
func (r *sessionReader) results(ctx context.Context, asked *tree.Message, t *references) (_ []tree.Block, err error) {
	calls := t.calls[asked.Ordinal]
	blocks := make([]tree.Block, len(calls))
	for i, c := range calls {
		result := tree.ToolResult{Block: c.Ref.Block, IsError: c.IsError}
		if use, ok := asked.Blocks[c.Ref.Block].(tree.ToolUse); ok {
			result.ProviderID = use.ProviderID
		}
		if result.Text, err = r.result(ctx, &c, t.outcomes[c.Child]); err != nil {
			return nil, err
		}
		blocks[i] = result
	}
	return blocks, nil
}
