package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// The existing sessions of a batch are locked until the transaction ends, before anything else of
// them is read or written. There are three places where that happens:
//
//   - loadFirst reads and locks them, if one has to be read;
//   - otherwise lock compares their versions with the cached ones, once rows of theirs are missing;
//   - otherwise saveSessions compares the versions while it writes them.
//
// batch.locked says that one of these was sent.
//
// The comparison and the write are sent with later statements, so their rows arrive late: with the
// next load, or with COMMIT. If the connection is lost in between, everything may be stored and no
// row have arrived. batch.resultsMissing is true until a row has arrived; the rows of all earlier
// lookups have then arrived too.

// lock locks the sessions and compares their versions with the cached ones, unless they are locked
// already.
func (b *batch) lock(ctx context.Context) error {
	if b.locked {
		return nil
	}
	b.locked = true
	return b.tx.loadLater(ctx, b.unchanged())
}

// saveSessions writes the existing sessions with one statement that also compares their versions,
// if only the columns that change with each commit are written. Otherwise it locks the sessions for
// the statements that follow.
func (b *batch) saveSessions(ctx context.Context, rows map[string][][]any) error {
	name := sessionTable.updates[0].name
	changed, held := rows[name], b.sessionsToCompare()
	if b.locked || len(held) == 0 || len(changed) < len(held) {
		return b.lock(ctx)
	}
	delete(rows, name)
	b.locked = true
	return b.tx.loadLater(ctx, lookup{versionCheckedName(name), changed, b.noteResult(changed)})
}

// sessionsToCompare names the existing sessions whose versions have to be compared: none if nobody
// else can write to the database.
func (b *batch) sessionsToCompare() (held []tree.SessionID) {
	for _, id := range b.order {
		if b.sessions[id].row != nil && !b.Exclusive() {
			held = append(held, id)
		}
	}
	return held
}

// unchanged compares the versions of sessions with the cached ones. It fails with errChanged if one
// differs.
func (b *batch) unchanged() lookup {
	var keys [][]any
	for _, id := range b.sessionsToCompare() {
		keys = append(keys, []any{idColumn(&id), b.sessions[id].row.version})
	}
	name := "unchanged"
	if len(keys) == 1 {
		name = "unchanged_one"
	}
	return lookup{name, keys, b.noteResult(keys)}
}

// noteResult gives a scan function that notes that the last lookup has returned a row. All lookups
// before it have returned theirs by then.
func (b *batch) noteResult(keys [][]any) func(row) error {
	b.resultsMissing = len(keys) > 0
	return func(row row) error {
		b.resultsMissing = false
		return row.Scan(new(int))
	}
}
