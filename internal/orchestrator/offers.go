package orchestrator

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// offers holds the runs that count as announced and for which no slot is idle. A slot of
// this replica that gives its run back gets the first of them with the answer, without
// being told over the dispatch stream and without asking. What no slot has taken within
// offerFor goes on the stream, as does what idle slots wait for. What is lost with the
// process is announced again when its lease is over.
type offers struct {
	mu       sync.Mutex
	runs     []waitingRun // the oldest first
	onStream []time.Time  // when hints went on the dispatch stream that nobody has come for, the oldest first; see reconcile
	last     time.Time    // when somebody came for a hint, or none could be waited for
	taking   int          // slots that are about to have a run of these
	some     chan struct{}
}

// waitingRun is a run that is to be claimed.
type waitingRun struct {
	dispatch.Hint
	since time.Time
}

const (
	// offerFor is how long a run may be kept for the slots of this replica: short beside what a
	// model takes, long beside what a task takes that asks none.
	offerFor = 200 * time.Millisecond
	// comeWithin is how long an idle slot may take to come for a hint.
	comeWithin = 20 * time.Millisecond
)

func newOffers() *offers { return &offers{some: make(chan struct{}, 1)} }

// add takes in runs that count as announced.
func (o *offers) add(now time.Time, ready ...store.Ready) {
	if len(ready) == 0 {
		return
	}
	o.mu.Lock()
	for _, r := range ready {
		o.runs = append(o.runs, waitingRun{dispatch.Hint{Session: r.Session, Task: r.Task, Epoch: r.Epoch, From: r.Replica}, now})
	}
	o.mu.Unlock()
	poke(o.some)
}

// committed takes in what has become ready, and reports whether any of it waits for its turn.
func (o *offers) committed(now time.Time, ready []store.Ready) (waiting bool) {
	var ahead []store.Ready
	for _, r := range ready {
		if r.Ahead {
			ahead = append(ahead, r)
		} else {
			waiting = true
		}
	}
	o.add(now, ahead...)
	return waiting
}

// due gives the runs that are to go on the dispatch stream: as many as there are idle slots
// beside those that something is on its way to, and what has been kept for long enough. It
// tells when to look again; zero if there is nothing left.
func (o *offers) due(now time.Time, idle int) (hints []dispatch.Hint, again time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.runs), max(0, idle-o.taking-o.coming(now)))
	for n < len(o.runs) && now.Sub(o.runs[n].since) >= offerFor {
		n++
	}
	for _, r := range o.runs[:n] {
		hints = append(hints, r.Hint)
		o.onStream = append(o.onStream, now)
	}
	o.drop(n)
	switch {
	case len(o.runs) > 0 && idle > o.taking:
		again = now.Add(comeWithin)
	case len(o.runs) > 0:
		again = o.runs[0].since.Add(offerFor)
	}
	return hints, again
}

// coming is how many hints slots are on their way for.
func (o *offers) coming(now time.Time) int {
	late := 0
	for late < len(o.onStream) && now.Sub(o.onStream[late]) >= comeWithin {
		late++
	}
	return len(o.onStream) - late
}

// reconcile says how many hints on the dispatch stream nobody has read. Slots have to come for all
// of them, whoever put them there, unless idle ones don't: their workers do not reach Redis.
// Beyond those, what nobody has come for in a while is lost, or its claim was another replica's.
func (o *offers) reconcile(now time.Time, unread, idle int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case unread == 0 || idle == 0:
		o.last = now
	case now.Sub(o.last) > announceLease:
		unread = 0
	}
	for len(o.onStream) > unread && now.Sub(o.onStream[0]) > announceLease {
		o.onStream = o.onStream[1:]
	}
	if unknown := unread - len(o.onStream); unknown > 0 {
		since := now.Add(-comeWithin)
		if len(o.onStream) > 0 && o.onStream[0].Before(since) {
			since = o.onStream[0]
		}
		o.onStream = append(slices.Repeat([]time.Time{since}, unknown), o.onStream...)
	}
	if len(o.onStream) > 0 {
		poke(o.some)
	}
}

// mayTake reports whether there is a run for a slot that has become free. What has been on the
// dispatch stream for a while has waited for longer: then the slot has to come for that.
func (o *offers) mayTake(now time.Time) bool {
	return len(o.runs) > 0 && (len(o.onStream) == 0 || now.Sub(o.onStream[0]) < comeWithin)
}

// takeFor gives the first run if its session fits, for a slot that is about to give its run
// back.
func (o *offers) takeFor(now time.Time, fits func(tree.SessionID) bool) (next waitingRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mayTake(now) && fits(o.runs[0].Session) {
		next = o.runs[0]
		o.drop(1)
	}
	return next
}

// back takes a run back that a slot was to have and has not got; it may be none. It is the
// first again.
func (o *offers) back(run waitingRun) {
	if run.Task.IsZero() {
		return
	}
	o.mu.Lock()
	o.runs = slices.Insert(o.runs, 0, run)
	o.mu.Unlock()
	poke(o.some)
}

// take gives a slot that has given its run back the first run, if there is one. Once the slot
// has the run, or can't have it, it says so with taken.
func (o *offers) take(now time.Time) (next waitingRun, any bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.mayTake(now) {
		return next, false
	}
	next = o.runs[0]
	o.drop(1)
	o.taking++
	return next, true
}

// first gives the first run, if there is one, for a slot that waits.
func (o *offers) first() (next waitingRun, any bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.runs) == 0 {
		return next, false
	}
	next = o.runs[0]
	o.drop(1)
	return next, true
}

// late is how many hints are on the dispatch stream that nobody has come for in time, and
// how many somebody is on the way for.
func (o *offers) late(now time.Time) (late, coming int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	coming = o.coming(now)
	return len(o.onStream) - coming, coming
}

// enoughFor reports whether so many idle slots are enough to come for what is on the dispatch
// stream.
func (o *offers) enoughFor(now time.Time, idle int) bool {
	late, coming := o.late(now)
	return late+coming <= max(0, idle)
}

func (o *offers) taken() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taking--
}

// drop forgets the first runs.
func (o *offers) drop(n int) {
	if o.runs = o.runs[n:]; len(o.runs) == 0 {
		o.runs = nil
	}
}

// came says that somebody has come for a hint on the dispatch stream.
func (o *offers) came(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = now
	if len(o.onStream) > 0 {
		o.onStream = o.onStream[1:]
	}
}

// enough reports whether there is work for half of so much room, so that more need not be
// picked yet: each pick is a transaction.
func (o *offers) enough(room int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.runs) > room/2
}

// How often what is on the dispatch stream is counted, and up to how many.
const (
	countEvery = time.Second
	countTo    = 1000
)

// countHints counts what is on the dispatch stream now and then, until ctx ends. What can't be
// counted, nobody can come for either.
func (s *Service) countHints(ctx context.Context) error {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		unread, err := s.Bus.Unread(ctx, s.Pool, countTo)
		if err != nil {
			s.Logger.DebugContext(ctx, "what is on the dispatch stream was not counted", "error", err)
		}
		s.offers.reconcile(time.Now(), unread, s.pulling())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sendOffers puts what is due on the dispatch stream until ctx ends. All of it goes there at
// once where other replicas are alive, whose slots may be idle, and where this one has none.
func (s *Service) sendOffers(ctx context.Context) error {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-s.offers.some:
		case <-wait.C:
		case <-ctx.Done():
			return nil
		}
		unsure := s.relieve(time.Now())
		s.giveOffered(ctx)
		idle := s.pulling()
		if s.others.Load() || s.census.slots() == 0 {
			idle = math.MaxInt
		}
		hints, again := s.offers.due(time.Now(), idle)
		if err := s.Bus.Announce(ctx, s.Pool, hints); err != nil && ctx.Err() == nil {
			// The rows are due again once their lease is over.
			s.Logger.WarnContext(ctx, "announcing failed", "error", err)
		}
		if again.IsZero() && unsure {
			again = time.Now().Add(comeWithin)
		}
		if !again.IsZero() {
			wait.Reset(time.Until(again))
		}
	}
}
