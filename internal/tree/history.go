package tree

import (
	"errors"
	"fmt"
)

// MaxHistory limits the messages that a session can begin with.
const MaxHistory = 20_000

// checkHistory refuses messages that cannot be a root's transcript: it begins with a user message,
// and the results of calls are in the tool message after them.
func (l Limits) checkHistory(history []Message) error {
	if len(history) > MaxHistory {
		return ErrTooLarge.With("the history has %d messages, the limit is %d", len(history), MaxHistory)
	}
	if len(history) > 0 && history[0].Role != RoleUser {
		return ErrBadInput.With("the first message of the history must be a user message")
	}
	for i := range history {
		m := &history[i]
		if err := l.checkAnswer(m); err != nil {
			return inHistory(i+1, err)
		}
		before := &Message{}
		if i > 0 {
			before = &history[i-1]
		}
		results, err := m.resultsOf(before)
		switch {
		case err != nil:
			return ErrBadInput.With("message %d of the history: %v", i+1, err)
		case (m.Role == RoleTool) != (len(results) > 0):
			return ErrBadInput.With("message %d of the history: tool results must directly follow the calls, in a separate tool message", i+1)
		case m.Role != RoleAssistant && m.MakesCalls():
			return ErrBadInput.With("message %d of the history: only assistant messages may call tools", i+1)
		case m.UpTo != 0 && (m.Role != RoleUser || m.UpTo < 1 || m.UpTo > i):
			return ErrBadInput.With("message %d of the history sums up message %d", i+1, m.UpTo)
		}
	}
	if n := len(history); n > 0 && history[n-1].MakesCalls() {
		return ErrCallsOpen.With("the last message of the history calls tools and has no results")
	}
	return nil
}

// inHistory adds to an error which message of a history it is about.
func inHistory(n int, err error) error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal.With("message %d of the history: %s", n, refusal.detail)
	}
	return fmt.Errorf("message %d of the history: %w", n, err)
}

// resultsOf gives the results in a message: exactly one for each call of the message before it, in
// the same order.
func (m *Message) resultsOf(asked *Message) ([]ToolResult, error) {
	var results []ToolResult
	for _, b := range m.Blocks {
		if r, ok := b.(ToolResult); ok {
			results = append(results, r)
		}
	}
	n := 0
	for i, b := range asked.Blocks {
		if _, ok := b.(ToolUse); !ok {
			continue
		}
		if n >= len(results) || results[n].Block != i {
			return nil, ErrNoCall.With("block %d of the previous message calls a tool, and its result is missing or in the wrong position", i)
		}
		n++
	}
	if n != len(results) || n > 0 && len(m.Blocks) != n {
		return nil, ErrNoCall.With("got %d blocks as the results of %d calls", len(m.Blocks), n)
	}
	return results, nil
}

// importHistory gives a root without messages the imported ones. They belong to no run, and their
// usage is not counted: it was paid for elsewhere.
func (d *decision) importHistory(t *Task, history []Message) {
	for i := range history {
		m := history[i]
		if m.ID.IsZero() {
			m.ID = MessageID(d.env.NewID())
		}
		if m.CreatedAt.IsZero() {
			m.CreatedAt = d.env.Now
		}
		m.Task, m.Parent, m.Ordinal, m.Run, m.News = t.ID, t.Head, t.NextOrdinal, 0, ChildRun{}
		t.Head = m.ID
		t.NextOrdinal++
		switch {
		case m.Role == RoleAssistant:
			t.LastAnswer = m.Ordinal
		case m.Role == RoleTool:
			d.importCalls(t, &history[i-1], &m)
			m.Blocks = nil // it is made of the calls when it is read
		case m.UpTo > 0:
			t.Compacted = m.Ordinal
		}
		d.view.changes.Messages = append(d.view.changes.Messages, &m)
	}
	d.view.touchTask(t)
	d.emitOutsideRun(t, Imported{Messages: len(history), Head: t.Head})
}

// importCalls adds the closed calls of an imported message.
func (d *decision) importCalls(t *Task, asked, answered *Message) {
	for _, b := range answered.Blocks {
		r, ok := b.(ToolResult)
		if !ok {
			continue
		}
		d.view.touchCall(&Call{
			Task: t.ID, Ref: CallRef{answered.Ordinal - 1, r.Block}, Tool: asked.Blocks[r.Block].(ToolUse).Name,
			State: CallClosed, Text: r.Text, IsError: r.IsError,
		})
	}
}
