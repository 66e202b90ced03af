package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// Callback is a callback with its session.
type Callback struct {
	Session tree.SessionID
	tree.Callback
}

func callbackRow(c *Callback) []any {
	return []any{idColumn(&c.Session), idColumn(&c.Task), &c.Run, &c.URL, &c.Tries, timeColumn{&c.Due}}
}

func plainCallbackRow(c *tree.Callback) []any {
	return []any{idColumn(new(tree.SessionID)), idColumn(&c.Task), &c.Run, &c.URL, &c.Tries, timeColumn{&c.Due}}
}

// DueCallbacks finds callbacks that may be taken, the oldest first.
func (s *Store) DueCallbacks(ctx context.Context, limit int) ([]Callback, error) {
	return query(ctx, s.db, "callbacks_due", callbackRow, s.clock(), limit)
}
