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

// backlog holds the runs that count as announced and for which no slot is idle. A slot of
// this replica that gives its run back gets the first of them with the answer, without
// being told over the dispatch stream and without asking. What idle slots wait for goes on
// the stream. So do a few that no slot has taken within keepFor, for whoever may come from
// elsewhere, and for those who count what waits there; the others stay, since each that goes over
// the stream is asked for and claimed by itself. What is lost with the process is announced
// again when its lease is over.
type backlog struct {
	mu          sync.Mutex
	runs        []queuedRun // the oldest first
	outstanding []time.Time // when hints went on the dispatch stream that nobody has come for, the oldest first; see reconcile
	lastClaim   time.Time   // when somebody came for a hint, or none could be waited for
	pausedUntil time.Time   // until when nothing goes on the dispatch stream, and then one hint, as Redis has not taken the last; zero: it has
	taking      int         // slots that are about to have a run of these
	changed     chan struct{}
}

// queuedRun is a run that is to be claimed.
type queuedRun struct {
	dispatch.Hint
	queuedAt time.Time
}

// isSame reports whether it is the same run.
func (r queuedRun) isSame(other queuedRun) bool {
	return r.Task == other.Task && r.Epoch == other.Epoch
}

const (
	// keepLocalFor is how long a run may be kept for the slots of this replica: short beside what a
	// model takes, long beside what a task takes that asks none.
	keepLocalFor = 200 * time.Millisecond
	// claimWithin is how long an idle slot takes to come for a hint, where nothing holds it up.
	claimWithin = 20 * time.Millisecond
	// redisTimeout is how long Redis may take for what keeps other runs waiting.
	redisTimeout = time.Second
	// redisRetryAfter is how long after Redis has not taken a hint it is offered the next one.
	redisRetryAfter = time.Second
	// maxOutstanding is up to how many hints on the stream there may be more for what was kept.
	maxOutstanding = minAnnounced
)

func newBacklog() *backlog { return &backlog{changed: make(chan struct{}, 1)} }

// add takes in runs that count as announced. One that is announced again may be here still.
func (b *backlog) add(now time.Time, ready ...store.Ready) {
	if len(ready) == 0 {
		return
	}
	b.mu.Lock()
	for _, r := range ready {
		run := queuedRun{dispatch.Hint{Session: r.Session, Task: r.Task, Epoch: r.Epoch, From: r.Replica}, now}
		if !r.Again || !slices.ContainsFunc(b.runs, run.isSame) {
			b.runs = append(b.runs, run)
		}
	}
	b.mu.Unlock()
	signal(b.changed)
}

// addReady takes in what has become ready, and reports whether any of it waits for its turn.
func (b *backlog) addReady(now time.Time, ready []store.Ready) (waiting bool) {
	var ahead []store.Ready
	for _, r := range ready {
		if r.Ahead {
			ahead = append(ahead, r)
		} else {
			waiting = true
		}
	}
	b.add(now, ahead...)
	return waiting
}

// takeDue gives the runs that are to go on the dispatch stream: as many as there are idle slots
// beside those that something is on its way to, and a few of those that have been kept for long
// enough. It tells when to look again; zero if there is nothing left.
func (b *backlog) takeDue(now time.Time, idle int) (hints []dispatch.Hint, again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.runs) > 0 && now.Before(b.pausedUntil) {
		return nil, b.pausedUntil
	}
	n := min(len(b.runs), max(0, idle-b.taking-b.outstandingSince(now.Add(-keepLocalFor))))
	for n < len(b.runs) && now.Sub(b.runs[n].queuedAt) >= keepLocalFor && n+len(b.outstanding) < maxOutstanding {
		n++
	}
	if !b.pausedUntil.IsZero() {
		n = min(n, 1) // slots of this replica can't have what is offered, as long as that takes
	}
	for _, r := range b.runs[:n] {
		hints = append(hints, r.Hint)
		b.outstanding = append(b.outstanding, now)
	}
	b.drop(n)
	switch soon := now.Add(claimWithin); {
	case len(b.runs) == 0:
	case idle > b.taking || soon.After(b.runs[0].queuedAt.Add(keepLocalFor)):
		again = soon
	default:
		again = b.runs[0].queuedAt.Add(keepLocalFor)
	}
	return hints, again
}

// outstandingSince is how many hints went on the stream after a time that nobody has come for.
func (b *backlog) outstandingSince(begin time.Time) int {
	before := 0
	for before < len(b.outstanding) && !b.outstanding[before].After(begin) {
		before++
	}
	return len(b.outstanding) - before
}

// reconcile says how many hints on the dispatch stream nobody has read. Slots have to come for all
// of them, whoever put them there, unless idle ones don't: their workers do not reach Redis.
// Beyond those, what nobody has come for in a while is lost, or its claim was another replica's.
func (b *backlog) reconcile(now time.Time, unread, idle int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case unread == 0 || idle == 0:
		b.lastClaim = now
	case now.Sub(b.lastClaim) > announceLease:
		unread = 0
	}
	for len(b.outstanding) > unread && now.Sub(b.outstanding[0]) > announceLease {
		b.outstanding = b.outstanding[1:]
	}
	if unknown := unread - len(b.outstanding); unknown > 0 {
		since := now.Add(-claimWithin)
		if len(b.outstanding) > 0 && b.outstanding[0].Before(since) {
			since = b.outstanding[0]
		}
		b.outstanding = append(slices.Repeat([]time.Time{since}, unknown), b.outstanding...)
	}
	if len(b.outstanding) > 0 {
		signal(b.changed)
	}
}

// mayTake reports whether there is a run for a slot that has become free. What has been on the
// dispatch stream for a while has waited for longer: the slot has to come for that, unless there
// are idle slots enough to do so. Were all that become free sent there, as many hints more would
// be, and it would not become empty before everything is done.
func (b *backlog) mayTake(now time.Time, idle int) bool {
	return len(b.runs) > 0 && (b.idleSufficeLocked(idle-b.taking) || now.Sub(b.outstanding[0]) < claimWithin)
}

// takeIf gives the first run if its session fits, for a slot that is about to give its run
// back.
func (b *backlog) takeIf(now time.Time, idle int, fits func(tree.SessionID) bool) (next queuedRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mayTake(now, idle) && fits(b.runs[0].Session) {
		next = b.runs[0]
		b.drop(1)
	}
	return next
}

// putBack takes a run back that a slot was to have and has not got; it may be none. It is the
// first again.
func (b *backlog) putBack(run queuedRun) {
	if run.Task.IsZero() {
		return
	}
	b.mu.Lock()
	b.runs = slices.Insert(b.runs, 0, run)
	b.mu.Unlock()
	signal(b.changed)
}

// take gives a slot that has given its run back the first run, if there is one. Once the slot
// has the run, or can't have it, it says so with drawn.
func (b *backlog) take(now time.Time, idle int) (next queuedRun, any bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mayTake(now, idle) {
		return next, false
	}
	next = b.runs[0]
	b.drop(1)
	b.taking++
	return next, true
}

// takeFirst gives the first run, if there is one, for a slot that waits.
func (b *backlog) takeFirst() (next queuedRun, any bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.runs) == 0 {
		return next, false
	}
	next = b.runs[0]
	b.drop(1)
	return next, true
}

// overdue is how many hints are on the dispatch stream that nobody has come for in time, and
// how many somebody is on the way for.
func (b *backlog) overdue(now time.Time) (late, coming int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	coming = b.outstandingSince(now.Add(-claimWithin))
	return len(b.outstanding) - coming, coming
}

// idleSuffice reports whether so many idle slots are enough to come for what is on the dispatch
// stream.
func (b *backlog) idleSuffice(idle int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idleSufficeLocked(idle)
}

// idleSufficeLocked is enoughFor with the lock.
func (b *backlog) idleSufficeLocked(idle int) bool { return len(b.outstanding) <= max(0, idle) }

func (b *backlog) takeDone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taking--
}

// drop forgets the first runs.
func (b *backlog) drop(n int) {
	if b.runs = b.runs[n:]; len(b.runs) == 0 {
		b.runs = nil
	}
}

// hintClaimed says that somebody has come for a hint on the dispatch stream.
func (b *backlog) hintClaimed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastClaim = now
	if len(b.outstanding) > 0 {
		b.outstanding = b.outstanding[1:]
	}
}

// sendFailed takes back what has not come to be on the dispatch stream. For tryAgain nothing else
// goes there; it gives when to look again. No slot has to come for what is there, nor for this,
// should it be there all the same.
func (b *backlog) sendFailed(now time.Time, hints []dispatch.Hint) (again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var back []queuedRun
	for _, h := range hints {
		back = append(back, queuedRun{h, now.Add(-keepLocalFor)})
	}
	b.runs = slices.Concat(back, b.runs)
	b.pausedUntil, b.outstanding = now.Add(redisRetryAfter), nil
	return b.pausedUntil
}

// sendSucceeded says that Redis has taken what was offered to it.
func (b *backlog) sendSucceeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pausedUntil = time.Time{}
}

// isPaused reports whether nothing goes on the dispatch stream.
func (b *backlog) isPaused(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.pausedUntil)
}

// streamUnreadable says that the dispatch stream can't be read: no slot can come for what is there.
func (b *backlog) streamUnreadable(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastClaim, b.outstanding = now, nil
}

// hasEnough reports whether there is work for half of so much room, so that more need not be
// picked yet: each pick is a transaction.
func (b *backlog) hasEnough(room int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs) > room/2
}

// sendDue puts what is due on the dispatch stream until ctx ends. All of it goes there at
// once where other replicas are alive, whose slots may be idle, and where this one has none.
func (s *Service) sendDue(ctx context.Context) error {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-s.backlog.changed:
		case <-wait.C:
		case <-ctx.Done():
			return nil
		}
		unsure := s.dismissForOverdue(time.Now())
		s.assignBacklog(ctx)
		idle := s.pullingSlots()
		if s.hasOthers.Load() || s.slots.count() == 0 {
			idle = math.MaxInt
		}
		hints, again := s.backlog.takeDue(time.Now(), idle)
		if err := s.publish(ctx, hints); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "announcing failed", "error", err)
			again = s.backlog.sendFailed(time.Now(), hints)
			s.assignBacklog(ctx)
		}
		if again.IsZero() && unsure {
			again = time.Now().Add(claimWithin)
		}
		if !again.IsZero() {
			wait.Reset(time.Until(again))
		}
	}
}

// publish puts hints on the dispatch stream, if there are any and Redis takes them.
func (s *Service) publish(ctx context.Context, hints []dispatch.Hint) error {
	if len(hints) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if err := s.Bus.Announce(ctx, s.Pool, hints); err != nil {
		return err
	}
	s.backlog.sendSucceeded()
	return nil
}
