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

// loadSessions gives each session that commands are about a view, an empty one if
// there is no such session.
func (b *batch) loadSessions(ctx context.Context, queued []*Pending) error {
	var keys [][]any
	for _, p := range queued {
		if _, held := b.views[p.session]; held || p.cmd == nil {
			continue
		}
		b.order = append(b.order, p.session)
		if known, held := b.recent.sessions[p.session]; held {
			b.views[p.session] = tree.NewView(&known)
			continue
		}
		b.views[p.session] = tree.NewView(nil)
		keys = append(keys, []any{idColumn(&p.session)})
	}
	return b.db.loadMany(ctx, "sessions", keys, func(rows *sql.Rows) error {
		s := &tree.Session{}
		err := rows.Scan(plainSessionRow(s)...)
		b.views[s.ID] = tree.NewView(s)
		return err
	})
}

// load hands the views what they miss. What is not found is handed over as not
// there, so that nobody asks again.
func (b *batch) load(ctx context.Context, wanted []want) error {
	if err := b.loadTasks(ctx, wanted); err != nil {
		return err
	}
	if err := b.loadCalls(ctx, wanted); err != nil {
		return err
	}
	for _, w := range wanted {
		if err := b.loadLists(ctx, w, b.views[w.session]); err != nil {
			return err
		}
		if err := b.loadBelow(ctx, w, b.views[w.session]); err != nil {
			return err
		}
	}
	return nil
}

// inSession names a row of a session's.
type inSession[K comparable] struct {
	session tree.SessionID
	key     K
}

func (b *batch) loadTasks(ctx context.Context, wanted []want) error {
	found := map[inSession[tree.TaskID]]*tree.Task{}
	var keys [][]any
	for _, w := range wanted {
		for _, id := range w.Tasks {
			k := inSession[tree.TaskID]{w.session, id}
			if _, asked := found[k]; asked {
				continue
			}
			if known, held := b.recent.tasks[k]; held {
				found[k] = &known
				continue
			}
			found[k] = nil
			keys = append(keys, []any{idColumn(&k.session), idColumn(&k.key)})
		}
	}
	err := b.db.loadMany(ctx, "tasks", keys, func(rows *sql.Rows) error {
		t := &tree.Task{}
		err := rows.Scan(taskRow(t)...)
		found[inSession[tree.TaskID]{t.Session, t.ID}] = t
		return err
	})
	for k, t := range found {
		b.views[k.session].PutTask(k.key, t)
	}
	return err
}

func (b *batch) loadCalls(ctx context.Context, wanted []want) error {
	found := map[inSession[tree.CallKey]]*tree.Call{}
	var keys [][]any
	for _, w := range wanted {
		for _, key := range w.Calls {
			k := inSession[tree.CallKey]{w.session, key}
			if _, asked := found[k]; !asked {
				found[k] = nil
				keys = append(keys, []any{idColumn(&k.session), idColumn(&k.key.Task), key.Ref.Message, key.Ref.Block})
			}
		}
	}
	err := b.db.loadMany(ctx, "calls", keys, func(rows *sql.Rows) error {
		var session tree.SessionID
		c := &tree.Call{}
		err := rows.Scan(callRow(&session, c)...)
		found[inSession[tree.CallKey]{session, tree.CallKey{Task: c.Task, Ref: c.Ref}}] = c
		return err
	})
	for k, c := range found {
		b.views[k.session].PutCall(k.key, c)
	}
	return err
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

// loadBelow hands over whole parts of the tree.
func (b *batch) loadBelow(ctx context.Context, w want, view *tree.View) error {
	for _, id := range w.Below {
		var found []*tree.Task
		err := b.db.load(ctx, "below", [][]any{{idColumn(&w.session), idColumn(&id)}}, func(rows *sql.Rows) error {
			t := &tree.Task{}
			found = append(found, t)
			return rows.Scan(taskRow(t)...)
		})
		if err != nil {
			return err
		}
		view.PutBelow(id, found)
	}
	return nil
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
