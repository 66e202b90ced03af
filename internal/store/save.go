package store

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// manyTasks is how many tasks a transaction writes if it sends them ahead.
const manyTasks = 200

// save writes what the views have changed, with one statement per table. New sessions are written
// first, all in the order of their ids. If another replica creates the same sessions, one of the
// two waits here and then fails, before it has written anything else. Of many tasks, the database
// can write the rows while those of their messages and events are prepared.
func (b *batch) save(ctx context.Context) error {
	rows := map[string][][]any{}
	put := func(name string, row []any) { rows[name] = append(rows[name], row) }
	sessions, tasks := slices.SortedFunc(slices.Values(b.order), byAge), 0
	for _, id := range sessions {
		c := b.sessions[id].view.Changes()
		b.collectQueues(id, c, put)
		b.collectTasks(id, c, put)
		tasks += len(c.Tasks)
	}
	for _, key := range b.newRequests {
		answer, err := encodeAnswer(b.requests[key].answer)
		if err != nil {
			return err
		}
		hash := b.requests[key].hash
		put("add_requests", []any{idColumn(&key.session), key.key, hash[:], string(answer)})
	}
	first, opened := sessionTable.insertAllStatement(rows["add_sessions"])
	if err := b.tx.save(ctx, first, opened...); err != nil {
		return err
	}
	delete(rows, "add_sessions")
	if err := b.saveSessions(ctx, rows); err != nil {
		return err
	}
	if tasks >= manyTasks {
		if err := b.saveRows(ctx, rows); err != nil {
			return err
		}
		clear(rows)
		b.tx.sendAhead(ctx)
	}
	for _, id := range sessions {
		b.collectLog(id, b.sessions[id].view.Changes(), put)
	}
	return b.saveRows(ctx, rows)
}

// saveRows writes rows, which are given by the names of their statements.
func (b *batch) saveRows(ctx context.Context, rows map[string][][]any) error {
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if !strings.HasSuffix(name, newTasksSuffix) {
			slices.SortFunc(rows[name], keyOrder)
		}
		if err := b.tx.save(ctx, name, rows[name]...); err != nil {
			return err
		}
	}
	return nil
}

// newTasksSuffix ends the names of statements that write whole tasks. New tasks are not sorted by
// their keys. Tasks are claimed in key order, so sorted tasks that one transaction claims would
// share a PostgreSQL page, which has no room for their new versions.
const newTasksSuffix = "_tasks"

// keyOrder orders rows of a table by their key columns, which come first. Inserts in key order fill
// the pages of an index one after another; in any other order they leave half of each page empty.
func keyOrder(a, b []any) int {
	for i := range a {
		var order int
		switch a := a[i].(type) {
		case id16:
			order = bytes.Compare(a.id[:], b[i].(id16).id[:])
		case *int:
			order = cmp.Compare(*a, *b[i].(*int))
		case int:
			order = cmp.Compare(a, b[i].(int))
		case int64:
			order = cmp.Compare(a, b[i].(int64))
		default:
			return 0
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

// collectTasks lists the rows of a session and its tasks that have to be written.
func (b *batch) collectTasks(id tree.SessionID, c *tree.Changes, put func(string, []any)) {
	if hasChanges(c) || b.sessions[id].unlistedChanged() {
		b.collectSession(b.sessions[id], put)
	}
	was, now := &b.rowBuffers[0], &b.rowBuffers[1]
	for _, t := range c.Tasks {
		*now = appendTaskRow((*now)[:0], t)
		if stored := b.sessions[id].view.StoredTask(t.ID); stored != nil {
			*was = appendTaskRow((*was)[:0], stored)
			name, row := taskTable.updateStatement(*was, *now)
			if name != claimUpdate || !b.writesNewestForm() || !isClaim(stored, t, c.Attempts[t.ID]) {
				put(name, row)
			}
			continue
		}
		if !b.writesNewestForm() {
			put("add_tasks", slices.Clone(*now))
			continue
		}
		put(taskTable.insertStatement(*now))
	}
	b.collectRuns(id, c, put)
}

// collectLog lists the rows of a session's messages, calls, approvals and events that have to be
// written.
func (b *batch) collectLog(id tree.SessionID, c *tree.Changes, put func(string, []any)) {
	for _, m := range c.Messages {
		body := wire.EncodeBody(m)
		put("add_messages", messageRow(&id, m, &body))
	}
	opened := openingMessages(c)
	for key, call := range c.Calls {
		if c.Settled[key] && b.writesNewestForm() {
			continue
		}
		put(b.addOrPut("calls", opened[messageKey{call.Task, call.Ref.Message}]), callRow(&id, call))
	}
	for _, a := range c.Approvals {
		put("put_approvals", approvalRow(&Approval{Session: id, Approval: *a}))
	}
	for _, e := range c.Events {
		data := wire.EncodeEvent(e)
		b.events[id] = append(b.events[id], data)
		put("add_events", []any{idColumn(&id), e.Seq, data})
	}
}

// openingMessages names the new messages that have opened calls.
func openingMessages(c *tree.Changes) map[messageKey]bool {
	opened := map[messageKey]bool{}
	for _, m := range c.Messages {
		if m.MakesCalls() {
			opened[messageKey{m.Task, m.Ordinal}] = true
		}
	}
	return opened
}

// addOrPut gives the statement that writes rows of a table. An insert is cheaper than an upsert,
// and used for new rows in the optimistic mode.
func (b *batch) addOrPut(table string, isNew bool) string {
	if isNew && b.mode == modeOptimistic {
		return "add_" + table
	}
	return "put_" + table
}

// wasStoredIn reports whether a task was in a state when it was last stored.
func (b *batch) wasStoredIn(state tree.State, id tree.SessionID, task tree.TaskID) bool {
	stored := b.sessions[id].view.StoredTask(task)
	return stored != nil && stored.State == state
}

// writesNewestForm reports whether rows are written in their newest form.
func (b *batch) writesNewestForm() bool {
	_, packs := b.tx.(packing)
	return packs
}

// collectRuns lists the rows of runs that have ended. The end of a task's last run is stored in the
// task's row, until its next run starts.
func (b *batch) collectRuns(id tree.SessionID, c *tree.Changes, put func(string, []any)) {
	for _, t := range c.Tasks {
		if stored := b.sessions[id].view.StoredTask(t.ID); stored != nil && stored.Run < t.Run && stored.State.Terminal() {
			run := stored.Ended()
			put("put_runs", runRow(&id, &run)) // an earlier release may have written it already
		}
	}
	for _, r := range c.Runs {
		if !b.writesNewestForm() || r.Run < c.Tasks[r.Task].Run {
			put("put_runs", runRow(&id, r))
		}
	}
}

// collectSession lists the row of a session.
func (b *batch) collectSession(s *cachedSession, put func(string, []any)) {
	if s.row == nil {
		version := b.now.UnixMicro() // a session that reuses a deleted id gets none of its versions
		put("add_sessions", s.nextRow(version).columns(nil))
		return
	}
	was, now := &b.rowBuffers[0], &b.rowBuffers[1]
	*was, *now = s.row.columns((*was)[:0]), s.nextRow(s.row.version+1).columns((*now)[:0])
	put(sessionTable.updateStatement(*was, *now))
}

// hasChanges reports whether there is anything to write.
func hasChanges(c *tree.Changes) bool {
	return c.Session != nil || len(c.Messages)+len(c.Runs)+len(c.Events) > 0 ||
		len(c.Tasks)+len(c.Calls)+len(c.Inbox)+len(c.Waits)+len(c.Timers)+len(c.Ready)+len(c.Attempts)+len(c.Callbacks)+len(c.Approvals) > 0
}

// collectQueues lists the rows of inboxes, waits, timers, ready runs, callbacks and attempts.
func (b *batch) collectQueues(id tree.SessionID, c *tree.Changes, put func(string, []any)) {
	for entry, e := range c.Inbox {
		if e == nil {
			put("drop_inbox", []any{idColumn(&id), idColumn(&entry)})
			continue
		}
		body := wire.EncodeEntry(e)
		put("put_inbox", inboxRow(&id, e, &body))
	}
	for row, there := range c.Waits {
		name := "drop_waits"
		if there {
			name = "put_waits"
		}
		put(name, waitRow(&id, &row))
	}
	for key, t := range c.Timers {
		if t == nil {
			put("drop_timers", []any{idColumn(&id), idColumn(&key.Task), key.Ref.Message, key.Ref.Block})
			continue
		}
		put("put_timers", timerRow(&Timer{Session: id, Timer: *t}))
	}
	b.collectReady(id, c, put)
	for run, cb := range c.Callbacks {
		if cb == nil {
			put("drop_callbacks", []any{idColumn(&id), idColumn(&run.Task), run.Run})
			continue
		}
		put("put_callbacks", callbackRow(&Callback{Session: id, Callback: *cb}))
	}
	for task, a := range c.Attempts {
		if a == nil {
			put("drop_attempts", []any{idColumn(&id), idColumn(&task)})
			continue
		}
		put(b.addOrPut("attempts", !b.wasStoredIn(tree.StateRunning, id, task)), attemptRow(&Attempt{Session: id, Attempt: *a}))
	}
}

// collectReady lists the rows of ready runs, except those that need none.
func (b *batch) collectReady(id tree.SessionID, c *tree.Changes, put func(string, []any)) {
	s, unlists := b.sessions[id], b.mayUnlist(c.Ready)
	for _, task := range inOrder(c.Ready) {
		r, wasUnlisted := c.Ready[task], s.unlisted[task]
		delete(s.unlisted, task)
		if r == nil {
			if !wasUnlisted {
				put("drop_ready", []any{idColumn(&id), idColumn(&task)})
			}
			b.gone = append(b.gone, task)
			continue
		}
		row := b.placeReady(id, r)
		row.unlisted = unlists && row.announcedUntil == 0 && s.view.StoredTask(task) == nil && followsFrom(c.Tasks[task], r)
		b.ready = append(b.ready, row)
		if row.unlisted {
			s.unlist(task)
			continue
		}
		put(b.addOrPut("ready", !b.wasStoredIn(tree.StatePending, id, task)), readyRow(&row))
	}
}

// placeReady decides how a ready run waits, and counts it. It is held back if its session already
// runs as many tasks as it may. Otherwise it is announced at once while no other run waits, and the
// window has room; if not, it waits for its turn. Runs of one session take their turns in the order
// in which they are placed.
func (b *batch) placeReady(id tree.SessionID, r *tree.Ready) Ready {
	s := b.sessions[id].view.Session()
	row := Ready{Session: id, Ready: *r, Replica: b.Replica, tenant: s.Tenant}
	free, lease := b.window.available()
	switch {
	case holdsBack(s):
		row.announcedUntil = heldBack
	case free > b.announced:
		b.announced++
		row.AnnouncedOnCommit = true
		if !b.mirror.isComplete() {
			row.announcedUntil = b.now.Add(lease).UnixMicro()
		}
		row.fairTag = max(b.virtualTime, b.sessions[id].fairTag) // it takes nobody's turn
		return row
	}
	b.waiting++
	row.fairTag = b.fairTag(id)
	return row
}

// inOrder gives the tasks of a map by age, so that runs are offered in the order in which they
// became ready.
func inOrder[T any](rows map[tree.TaskID]T) []tree.TaskID {
	tasks := make([]tree.TaskID, 0, len(rows))
	for task := range rows {
		tasks = append(tasks, task)
	}
	slices.SortFunc(tasks, byAge)
	return tasks
}

func byAge[Of any](a, b tree.ID[Of]) int { return bytes.Compare(a[:], b[:]) }
