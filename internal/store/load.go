package store

import (
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// sessionNeeds is what a session's view still needs.
type sessionNeeds struct {
	session tree.SessionID
	tree.Needs
}

// loadFirst loads what every batch begins with: the sessions of its commands, the time, and the
// answers to earlier requests. The sessions belong to the batch from then on. A session that does
// not exist gets an empty view.
func (b *batch) loadFirst(ctx context.Context, queued []*Pending) error {
	requests := b.requestKeys(queued)
	b.order = b.adoptSessions(queued)
	anyway := len(requests) > 0 || !b.dbClock.isSet()
	toRead := b.sessionsToRead(anyway)
	if len(toRead) == 0 && !anyway {
		b.now, b.virtualTime = b.dbNow(), b.advanceVirtualTime(b.dbClock.virtualTime)
		if err := b.tx.loadLater(ctx, append(b.agentLookups(queued), b.refreshClock())...); err != nil || !hasSteps(queued) {
			return err
		}
		return b.lock(ctx)
	}
	b.locked = true
	found := map[tree.SessionID]bool{}
	keys := make([][]any, len(toRead))
	for i := range toRead {
		keys[i] = []any{idColumn(&toRead[i])}
	}
	sessions := lookup{"sessions", keys, func(row row) error {
		var s tree.Session
		var extras sessionExtras
		err := row.Scan(sessionRow(&s, &extras)...)
		found[s.ID] = true
		b.sessions[s.ID].loadRow(&s, extras)
		return err
	}}
	first := append([]lookup{sessions, b.clockLookup(), {"request", requests, b.scanRequest}}, b.agentLookups(queued)...)
	foreseen, put := b.lookups(b.predictNeeds(queued))
	if err := b.tx.load(ctx, append(first, foreseen...)...); err != nil {
		return err
	}
	for _, id := range toRead {
		if !found[id] {
			b.dropSession(id)
		}
	}
	b.now, b.virtualTime = b.dbNow(), b.advanceVirtualTime(b.dbClock.virtualTime)
	put()
	return nil
}

// adoptSessions takes the sessions of a batch out of the cache, or makes empty ones, and gives
// their ids in order of arrival.
func (b *batch) adoptSessions(queued []*Pending) (order []tree.SessionID) {
	for _, p := range queued {
		for id := range p.sessions() {
			if b.sessions[id] != nil {
				continue
			}
			order = append(order, id)
			s := b.sessionCache.get(id)
			if s == nil {
				s = &cachedSession{view: tree.NewView(nil)}
				if p.opensWithGeneratedID() {
					s.state = cachePresumedNew
				}
			}
			b.sessions[id] = s
		}
	}
	return order
}

// sessionsToRead names the sessions to read: those whose cache entry is not valid, except those
// that are presumed new. Where other replicas write too, all sessions are read and locked as soon
// as one has to be read, or anything else (anyway).
func (b *batch) sessionsToRead(anyway bool) (unsure []tree.SessionID) {
	for _, id := range b.order {
		if state := b.sessions[id].state; state != cacheValid && !(state == cachePresumedNew && b.mode == modeOptimistic && b.dbClock.isFresh()) {
			unsure = append(unsure, id)
		}
	}
	if (len(unsure) > 0 || anyway) && !b.Exclusive() {
		return b.order
	}
	return unsure
}

// hasSteps reports whether a batch contains steps of the store's own.
func hasSteps(queued []*Pending) bool {
	return slices.ContainsFunc(queued, func(p *Pending) bool { return p.cmd == nil })
}

// load reads the missing rows of views, all in one round trip. Rows that are not found are put as
// missing, so that no view asks for them again.
func (b *batch) load(ctx context.Context, wanted []sessionNeeds) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	lookups, put := b.lookups(wanted)
	if err := b.tx.load(ctx, lookups...); err != nil {
		return err
	}
	put()
	return nil
}

// lookups gives the lookups of missing rows; put hands what they found to the views.
func (b *batch) lookups(wanted []sessionNeeds) (lookups []lookup, put func()) {
	if len(wanted) == 0 {
		return nil, func() {}
	}
	tasks, putTasks := b.tasks(wanted)
	calls, putCalls := b.calls(wanted)
	approvals, putApprovals := b.approvals(wanted)
	lookups = []lookup{tasks, calls, approvals}
	puts := []func(){putTasks, putCalls, putApprovals}
	for _, w := range wanted {
		lookups, puts = b.lists(w, lookups, puts)
	}
	return lookups, func() {
		for _, put := range puts {
			put()
		}
	}
}

// sessionKey names a row within a session.
type sessionKey[K comparable] struct {
	session tree.SessionID
	key     K
}

// tasks looks up tasks by their ids.
func (b *batch) tasks(wanted []sessionNeeds) (_ lookup, put func()) {
	found := map[sessionKey[tree.TaskID]]*tree.Task{}
	var keys [][]any
	for _, w := range wanted {
		for _, id := range w.Tasks {
			k := sessionKey[tree.TaskID]{w.session, id}
			if _, asked := found[k]; asked {
				continue
			}
			found[k] = nil
			keys = append(keys, []any{idColumn(&k.session), idColumn(&k.key)})
		}
	}
	take := func(row row) error {
		t := &tree.Task{}
		err := row.Scan(taskRow(t)...)
		found[sessionKey[tree.TaskID]{t.Session, t.ID}] = t
		return err
	}
	return lookup{"tasks", keys, take}, func() {
		for k, t := range found {
			b.sessions[k.session].view.PutTask(k.key, t)
		}
	}
}

// calls looks up calls by their keys.
func (b *batch) calls(wanted []sessionNeeds) (_ lookup, put func()) {
	found := map[sessionKey[tree.CallKey]]*tree.Call{}
	var keys [][]any
	for _, w := range wanted {
		for _, key := range w.Calls {
			k := sessionKey[tree.CallKey]{w.session, key}
			if _, asked := found[k]; !asked {
				found[k] = nil
				keys = append(keys, []any{idColumn(&k.session), idColumn(&k.key.Task), key.Ref.Message, key.Ref.Block})
			}
		}
	}
	take := func(row row) error {
		var session tree.SessionID
		c := &tree.Call{}
		err := row.Scan(callRow(&session, c)...)
		found[sessionKey[tree.CallKey]{session, tree.CallKey{Task: c.Task, Ref: c.Ref}}] = c
		return err
	}
	return lookup{"calls", keys, take}, func() {
		for k, c := range found {
			b.sessions[k.session].view.PutCall(k.key, c)
		}
	}
}

// lists adds the lookups of rows that are read as whole lists, and the functions that hand them to
// the view.
func (b *batch) lists(w sessionNeeds, lookups []lookup, put []func()) ([]lookup, []func()) {
	view := func() *tree.View { return b.sessions[w.session].view } // once the session is read
	for _, id := range w.OpenCalls {
		var found []*tree.Call
		lookups = append(lookups, lookup{"calls_open", key(&w.session, &id, tree.CallClosed), func(row row) error {
			c := &tree.Call{}
			found = append(found, c)
			return row.Scan(plainCallRow(c)...)
		}})
		put = append(put, func() { view().PutOpenCalls(id, found) })
	}
	for _, id := range w.Inbox {
		var found []*tree.InboxEntry
		lookups = append(lookups, lookup{"inbox", key(&w.session, &id), func(row row) error {
			e, err := inboxEntry(row)
			found = append(found, e)
			return err
		}})
		put = append(put, func() { view().PutInbox(id, found) })
	}
	for _, run := range w.Watchers {
		var found []tree.WaitRow
		lookups = append(lookups, lookup{"watchers", key(&w.session, &run.Task, run.Run), func(row row) error {
			var wait tree.WaitRow
			err := row.Scan(waitRow(new(tree.SessionID), &wait)...)
			found = append(found, wait)
			return err
		}})
		put = append(put, func() { view().PutWatchers(run, found) })
	}
	for _, id := range w.Below {
		var found []*tree.Task
		lookups = append(lookups, lookup{"below", key(&w.session, &id), func(row row) error {
			t := &tree.Task{}
			found = append(found, t)
			return row.Scan(taskRow(t)...)
		}})
		put = append(put, func() { view().PutBelow(id, found) })
	}
	for _, run := range w.Callbacks {
		var found *tree.Callback
		lookups = append(lookups, lookup{"callback", key(&w.session, &run.Task, run.Run), func(row row) error {
			var c Callback
			err := row.Scan(callbackRow(&c)...)
			found = &c.Callback
			return err
		}})
		put = append(put, func() { view().PutCallback(run, found) })
	}
	return lookups, put
}

// key is the single key of a lookup for one task.
func key(session *tree.SessionID, task *tree.TaskID, more ...any) [][]any {
	return [][]any{append([]any{idColumn(session), idColumn(task)}, more...)}
}

func inboxEntry(row row) (*tree.InboxEntry, error) {
	e := &tree.InboxEntry{}
	var body []byte
	if err := row.Scan(inboxRow(new(tree.SessionID), e, &body)...); err != nil {
		return nil, err
	}
	if err := wire.DecodeEntry(body, e); err != nil {
		return nil, err
	}
	return e, nil
}
