package store

import (
	"iter"

	"github.com/coppice-run/coppice/internal/tree"
)

// predictNeeds predicts which rows commands will need of sessions that have to be read, so that
// they can be read in the round trip that locks the sessions. Without it rows lead to other rows,
// and each step would be one more round trip. The prediction assumes that nothing has changed since
// the last commits of this replica. It decides nothing: surplus rows are ignored, and missing rows
// are read afterwards.
func (b *batch) predictNeeds(queued []*Pending) (wanted []sessionNeeds) {
	if b.Exclusive() {
		return nil // reads take no round trip
	}
	scratch := map[tree.SessionID]*tree.View{}
	for id, cmd := range foreseen(queued) {
		s := b.sessions[id]
		if s.state == cacheValid {
			continue
		}
		v := scratch[id]
		if v == nil {
			v = emptyCopy(s.view)
			scratch[id] = v
		}
		for missing := v.Missing(cmd); !missing.Empty(); missing = v.Missing(cmd) {
			wanted = append(wanted, sessionNeeds{id, missing})
			putGuess(v, s.view, missing)
		}
	}
	return wanted
}

// foreseen gives the commands whose needs can be told before the first one is decided, each with its
// session. The calls of an answer are in no row yet, so a spawn that comes with it is not among them.
func foreseen(queued []*Pending) iter.Seq2[tree.SessionID, tree.Command] {
	return func(yield func(tree.SessionID, tree.Command) bool) {
		answered := map[tree.TaskID]bool{}
		for _, p := range queued {
			for id, cmd := range p.commands() {
				switch c := cmd.(type) {
				case tree.AppendAnswer:
					answered[c.Task] = true
				case tree.SpawnCalls:
					if answered[c.From.Task] {
						continue
					}
				}
				if !yield(id, cmd) {
					return
				}
			}
		}
	}
}

// emptyCopy gives a view of the same session that holds nothing else.
func emptyCopy(v *tree.View) *tree.View {
	if s := v.Session(); s != nil {
		copied := *s
		return tree.NewView(&copied)
	}
	return tree.NewView(nil)
}

// putGuess hands a view what it misses, as far as another view has it.
func putGuess(v, from *tree.View, missing tree.Needs) {
	for _, id := range missing.Tasks {
		v.PutTask(id, from.HeldTask(id))
	}
	for _, key := range missing.Calls {
		v.PutCall(key, nil)
	}
	for _, id := range missing.OpenCalls {
		v.PutOpenCalls(id, nil)
	}
	for _, id := range missing.Inbox {
		v.PutInbox(id, nil)
	}
	for _, run := range missing.Watchers {
		v.PutWatchers(run, nil)
	}
	for _, id := range missing.Below {
		v.PutBelow(id, nil)
	}
	for _, id := range missing.Approvals {
		v.PutApproval(id, nil)
	}
	for _, run := range missing.Callbacks {
		v.PutCallback(run, nil)
	}
}
