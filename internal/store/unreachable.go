package store

import (
	"context"
	"fmt"
	"time"
)

var (
	errUnreachable    = ErrUnavailable.With("the database could not be reached")
	errUnanswered     = ErrUnavailable.With("the connection to the database was lost before it responded")
	errOutcomeUnknown = ErrUnavailable.With("the connection to the database was lost during a commit; whether the commit took effect is unknown")
)

// unreachable is errUnreachable with its cause as text only. A timeout of ours must not look like
// one of the caller's deadlines.
func unreachable(cause error) error { return fmt.Errorf("%w: %s", errUnreachable, cause.Error()) }

// unreachableLogInterval is how often an unreachable database is logged at most.
const unreachableLogInterval = 10 * time.Second

// logUnreachable logs why the database cannot be reached. Clients only learn that it cannot.
func (db *postgres) logUnreachable(ctx context.Context, err error) {
	now, last := time.Now().UnixNano(), db.loggedUnreachable.Load()
	if (last == 0 || now-last >= int64(unreachableLogInterval)) && db.loggedUnreachable.CompareAndSwap(last, now) {
		db.log.WarnContext(ctx, "the database cannot be reached", "error", err)
	}
}
