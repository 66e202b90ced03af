package store

import (
	"context"
	"database/sql"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// want is what a session's view misses.
type want struct {
	session tree.SessionID
	tree.Needs
}

// session reads a session inside the transaction; nil if there is none.
func (b *batch) session(ctx context.Context, id tree.SessionID) (*tree.Session, error) {
	var found *tree.Session
	err := b.db.load(ctx, "session", [][]any{{idColumn(&id)}}, func(rows *sql.Rows) error {
		found = &tree.Session{}
		var maxRunning int
		return rows.Scan(sessionRow(found, &maxRunning)...)
	})
	return found, err
}

// load hands the views what they miss. What is not found is handed over as not
// there, so that nobody asks again.
func (b *batch) load(ctx context.Context, wanted []want) error {
	for _, w := range wanted {
		view := b.views[w.session]
		for _, id := range w.Tasks {
			t, err := loadTask(ctx, b.db, w.session, id)
			if err != nil {
				return err
			}
			view.PutTask(id, t)
		}
		for _, key := range w.Calls {
			calls, err := b.calls(ctx, "call",
				idColumn(&w.session), idColumn(&key.Task), key.Ref.Message, key.Ref.Block)
			if err != nil {
				return err
			}
			var found *tree.Call
			if len(calls) > 0 {
				found = calls[0]
			}
			view.PutCall(key, found)
		}
		if err := b.loadLists(ctx, w, view); err != nil {
			return err
		}
	}
	return nil
}

// loadLists hands over what is asked for as a whole.
func (b *batch) loadLists(ctx context.Context, w want, view *tree.View) error {
	for _, id := range w.OpenCalls {
		calls, err := b.calls(ctx, "calls_open", idColumn(&w.session), idColumn(&id), tree.CallClosed)
		if err != nil {
			return err
		}
		view.PutOpenCalls(id, calls)
	}
	for _, id := range w.Inbox {
		entries, err := b.inbox(ctx, w.session, id)
		if err != nil {
			return err
		}
		view.PutInbox(id, entries)
	}
	for _, run := range w.Watchers {
		var found []tree.WaitRow
		err := b.db.load(ctx, "watchers", [][]any{{idColumn(&w.session), idColumn(&run.Task), run.Run}},
			func(rows *sql.Rows) error {
				var session tree.SessionID
				var row tree.WaitRow
				err := rows.Scan(waitRow(&session, &row)...)
				found = append(found, row)
				return err
			})
		if err != nil {
			return err
		}
		view.PutWatchers(run, found)
	}
	return nil
}

func loadTask(ctx context.Context, db *sqlite, session tree.SessionID, id tree.TaskID) (*tree.Task, error) {
	var found *tree.Task
	err := db.load(ctx, "task", [][]any{{idColumn(&session), idColumn(&id)}}, func(rows *sql.Rows) error {
		found = &tree.Task{}
		return rows.Scan(taskRow(found)...)
	})
	return found, err
}

func (b *batch) calls(ctx context.Context, name string, args ...any) ([]*tree.Call, error) {
	var found []*tree.Call
	err := b.db.load(ctx, name, [][]any{args}, func(rows *sql.Rows) error {
		var session tree.SessionID
		c := &tree.Call{}
		found = append(found, c)
		return rows.Scan(callRow(&session, c)...)
	})
	return found, err
}

func (b *batch) inbox(ctx context.Context, session tree.SessionID, id tree.TaskID) ([]*tree.InboxEntry, error) {
	var found []*tree.InboxEntry
	err := b.db.load(ctx, "inbox", [][]any{{idColumn(&session), idColumn(&id)}}, func(rows *sql.Rows) error {
		e := &tree.InboxEntry{}
		var body []byte
		if err := rows.Scan(inboxRow(&session, e, &body)...); err != nil {
			return err
		}
		m := tree.Message{}
		if err := wire.DecodeBody(body, &m); err != nil {
			return err
		}
		if len(m.Blocks) > 0 {
			e.Blocks = m.Blocks
		}
		found = append(found, e)
		return nil
	})
	return found, err
}
