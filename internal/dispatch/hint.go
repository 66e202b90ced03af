package dispatch

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/coppice-run/coppice/internal/tree"
)

// Hint says that a task of a session is ready to be claimed under an epoch.
type Hint struct {
	Session tree.SessionID
	Task    tree.TaskID
	Epoch   int64 // of the next delivery; at least 1
	// From is the replica that made the task ready, which may know its session best; empty if
	// unknown.
	From string
}

// Delivery is a hint that a consumer has read. ID is for [Bus.Done].
type Delivery struct {
	ID   string
	Hint Hint
}

// The fields of a stream entry. Every entry has all of them in this order, which Redis stores most
// compactly. A reader accepts any order and ignores unknown fields.
const (
	fieldSession = "session"
	fieldTask    = "task"
	fieldEpoch   = "epoch"
	fieldFrom    = "from"
)

// fields returns alternating names and values.
func (h Hint) fields() []any {
	return []any{
		fieldSession, h.Session.String(),
		fieldTask, h.Task.String(),
		fieldEpoch, strconv.FormatInt(h.Epoch, 10),
		fieldFrom, h.From,
	}
}

// check returns why the hint is invalid.
func (h Hint) check() error {
	switch {
	case h.Session.IsZero():
		return errors.New("no session")
	case h.Task.IsZero():
		return errors.New("no task")
	case h.Epoch < 1:
		return fmt.Errorf("epoch %d", h.Epoch)
	}
	return nil
}

// decodeHint decodes a stream entry. The entry is not trusted.
func decodeHint(values map[string]any) (Hint, error) {
	text := func(field string) string {
		s, _ := values[field].(string)
		return s
	}
	session, err := tree.ParseID[tree.Session](text(fieldSession))
	if err != nil {
		return Hint{}, fmt.Errorf("reading the session: %w", err)
	}
	task, err := tree.ParseID[tree.Task](text(fieldTask))
	if err != nil {
		return Hint{}, fmt.Errorf("reading the task: %w", err)
	}
	epoch, err := strconv.ParseInt(text(fieldEpoch), 10, 64)
	if err != nil {
		return Hint{}, fmt.Errorf("reading the epoch: %w", err)
	}
	h := Hint{Session: session, Task: task, Epoch: epoch, From: text(fieldFrom)}
	return h, h.check()
}
