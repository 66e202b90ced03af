package store

import (
	"context"

	"github.com/coppice-run/coppice/internal/tree"
)

// The sessions of a batch that were there are locked until the transaction ends, before anything
// else of theirs is read or written: with the reading of them, if one has to be read (loadFirst);
// or else with a look that they are still as they are held, once something of them is missing
// (lock); or else with the writing of them, which looks too (saveSessions). batch.locked says
// that it was asked for.
//
// The look, and the writing, are sent with what follows, so their rows come late: with the next
// load, or with COMMIT. If the connection is lost then, all may be stored and no row have come.
// The batch is unread until one has, and so is what else it has asked for.

// lock locks the sessions and has the database look that they are still as they are held, if
// they are not locked yet.
func (b *batch) lock(ctx context.Context) error {
	if b.locked {
		return nil
	}
	b.locked = true
	return b.tx.loadLater(ctx, b.unchanged())
}

// saveSessions writes the sessions that were there, if nothing else is written than what
// changes with each commit, with one statement that also looks that they are still as they are
// held. Otherwise it locks them for what is written then.
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

// sessionsToCompare names the sessions that are to be as they are held. Where nobody else writes there is no
// need to look.
func (b *batch) sessionsToCompare() (held []tree.SessionID) {
	for _, id := range b.order {
		if b.sessions[id].row != nil && !b.Exclusive() {
			held = append(held, id)
		}
	}
	return held
}

// unchanged looks that sessions are still as they are held, and fails with errChanged if
// one is not.
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

// noteResult notes that the row has come of what was asked for last: so has all before it.
func (b *batch) noteResult(keys [][]any) func(row) error {
	b.resultsMissing = len(keys) > 0
	return func(row row) error {
		b.resultsMissing = false
		return row.Scan(new(int))
	}
}
