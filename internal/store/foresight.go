package store

import "github.com/coppice-run/coppice/internal/tree"

// foreseen guesses what commands will need, so that it is read in the round trip in
// which their sessions are locked: rows lead to rows, and each step would be another
// round trip. The guess is what they would need if nothing had changed since the last
// commits of this replica. It decides nothing: what was guessed too much is not looked
// at, and what is missing is read afterwards.
func (b *batch) foreseen(queued []*Pending) []want {
	if b.sure() {
		return nil // what is remembered need not be read
	}
	views := map[tree.SessionID]*tree.View{}
	var wanted []want
	for _, p := range queued {
		if p.cmd == nil {
			continue
		}
		v := views[p.session]
		if v == nil {
			v = b.remembered(p.session)
			views[p.session] = v
		}
		for missing := v.Missing(p.cmd); !missing.Empty(); missing = v.Missing(p.cmd) {
			wanted = append(wanted, want{p.session, missing})
			b.guess(v, want{p.session, missing})
		}
	}
	return wanted
}

// remembered gives a view of a session as it last was here.
func (b *batch) remembered(id tree.SessionID) *tree.View {
	if known, held := b.recent.sessions[id]; held {
		return tree.NewView(&known.Session)
	}
	return tree.NewView(nil)
}

// guess hands a view what it misses, as far as it is remembered.
func (b *batch) guess(v *tree.View, w want) {
	for _, id := range w.Tasks {
		var t *tree.Task
		if known, held := b.recent.tasks[inSession[tree.TaskID]{w.session, id}]; held {
			t = &known
		}
		v.PutTask(id, t)
	}
	for _, key := range w.Calls {
		v.PutCall(key, nil)
	}
	for _, id := range w.OpenCalls {
		v.PutOpenCalls(id, nil)
	}
	for _, id := range w.Inbox {
		v.PutInbox(id, nil)
	}
	for _, run := range w.Watchers {
		v.PutWatchers(run, nil)
	}
	for _, id := range w.Below {
		v.PutBelow(id, nil)
	}
	for _, id := range w.Approvals {
		v.PutApproval(id, nil)
	}
	for _, run := range w.Callbacks {
		v.PutCallback(run, nil)
	}
}
