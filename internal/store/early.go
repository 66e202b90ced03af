package store

import (
	"runtime"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// stored follows a commit that may not be durable yet, and lets runs begin early. Claimed runs take
// their conversations from the caches, so these are updated first.
func (b *batch) stored(queued []*Pending, answers []commandResult) {
	b.updateCaches()
	if !b.EarlyRuns {
		return
	}
	b.notifySlots(true)
	markEarly(queued, answers)
	b.answer(queued, answers, true)
	if slices.ContainsFunc(queued, func(p *Pending) bool { return p.early }) {
		// What was answered continues on this processor. The sync would keep it meanwhile.
		runtime.Gosched()
	}
}

// mayBegin reports whether a worker may begin a run before its claim is durable. A worker of this
// process is lost too if the machine fails before that. What it has done by then is forgotten, so it
// must be no more than a model call: a command, or an approved call, could be repeated unnoticed.
func (o *Offer) mayBegin(claimed *tree.Claimed) bool {
	return o != nil && o.Local && claimed != nil && claimed.Task.Kind == tree.KindAgent && claimed.Task.OpenCalls == 0
}

// markEarly marks the commands whose answers need not wait until they are durable, because they give
// a run that may begin. Its worker gets them after the answers to what it asked together with them,
// for the run that it has given back.
func markEarly(queued []*Pending, answers []commandResult) {
	for len(queued) > 0 {
		n := min(1+len(queued[0].group), len(queued)) // one that is committed alone has lost its group
		if queued[n-1].offer.mayBegin(answers[n-1].nextRun) {
			for _, p := range queued[:n] {
				p.early = true
			}
		}
		queued, answers = queued[n:], answers[n:]
	}
}
