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

// DueCallbacks finds callbacks that may be taken, so many of each host at most: first the
// oldest of each, then the next of each. So no host hides others, whatever is due of it.
func (s *Store) DueCallbacks(ctx context.Context, ofHost, limit int) ([]Callback, error) {
	return query(ctx, s.db, "callbacks_due", callbackRow, s.clock(), ofHost, limit)
}
