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

// backlog holds the runs that count as announced and for which no slot is idle.
//
// A slot of this replica that gives its run back gets the first of them with the answer, without a
// hint and without a claim of its own. Runs that idle slots wait for go on the dispatch stream. So
// do a few that no slot has taken within keepLocalFor, for workers of other replicas and for those
// who count the length of the stream. The others stay here, because a run on the stream costs a
// read and a claim of its own.
//
// What is lost with the process is announced again when its announcement expires (announceLease).
type backlog struct {
	mu          sync.Mutex
	runs        []queuedRun // the oldest first
	outstanding []time.Time // when the unclaimed hints went on the dispatch stream, the oldest first; see reconcile
	lastClaim   time.Time   // when a hint was last claimed, or no claim could be expected
	pausedUntil time.Time   // Redis failed: until then nothing goes on the stream, and after that one hint at a time; zero: Redis works
	taking      int         // how many slots are claiming a run that they took
	changed     chan struct{}
}

// queuedRun is a run that waits to be claimed.
type queuedRun struct {
	dispatch.Hint
	queuedAt time.Time
}

func (r queuedRun) isSame(other queuedRun) bool {
	return r.Task == other.Task && r.Epoch == other.Epoch
}

const (
	// keepLocalFor is how long a run is kept for the slots of this replica. That is short compared
	// with a model call, and long compared with a task that calls no model.
	keepLocalFor = 200 * time.Millisecond
	// claimWithin is how long an idle slot takes to claim a hint when nothing delays it.
	claimWithin = 20 * time.Millisecond
	// redisTimeout bounds a call to Redis that other runs wait for.
	redisTimeout = time.Second
	// redisRetryAfter is the pause after Redis has failed to take a hint.
	redisRetryAfter = time.Second
	// maxOutstanding bounds the hints on the stream: runs older than keepLocalFor go there only
	// while fewer hints than that are unclaimed.
	maxOutstanding = minAnnounced
)

func newBacklog() *backlog { return &backlog{changed: make(chan struct{}, 1)} }

// add adds runs that count as announced. A run that is announced again is skipped if it is still
// here.
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

// addReady adds those runs that have become ready and count as announced. It reports whether others
// of them wait for their turn.
func (b *backlog) addReady(now time.Time, ready []store.Ready) (waiting bool) {
	var ahead []store.Ready
	for _, r := range ready {
		if r.AnnouncedOnCommit {
			ahead = append(ahead, r)
		} else {
			waiting = true
		}
	}
	b.add(now, ahead...)
	return waiting
}

// takeDue removes the runs that are to go on the dispatch stream: one for each idle slot that no
// other run is on its way to, and a few of those that are older than keepLocalFor. again says when
// to look next; zero if the backlog is empty.
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
		n = min(n, 1) // while the call to Redis lasts, slots of this replica can't get the runs in it
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

// outstandingSince returns how many unclaimed hints went on the stream after a time.
func (b *backlog) outstandingSince(begin time.Time) int {
	before := 0
	for before < len(b.outstanding) && !b.outstanding[before].After(begin) {
		before++
	}
	return len(b.outstanding) - before
}

// reconcile takes in how many hints on the dispatch stream are unread. Idle slots are expected to
// claim all of them, whichever replica put them there, unless they fail to for announceLease: then
// their workers do not reach Redis. Hints beyond the unread ones that stay unclaimed are lost, or
// were claimed at another replica.
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

// mayTake reports whether a slot that has become free may take a run from the backlog. Hints that
// have been on the stream for a while have waited longer, so the slot has to claim those, unless
// there are enough idle slots for them. If every free slot were sent to the stream, as many new
// hints would follow, and the stream would not become empty before all work is done.
func (b *backlog) mayTake(now time.Time, idle int) bool {
	return len(b.runs) > 0 && (b.idleSufficeLocked(idle-b.taking) || now.Sub(b.outstanding[0]) < claimWithin)
}

// takeIf removes and returns the first run if its session fits. It is for a slot that is about to
// give its run back.
func (b *backlog) takeIf(now time.Time, idle int, fits func(tree.SessionID) bool) (next queuedRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mayTake(now, idle) && fits(b.runs[0].Session) {
		next = b.runs[0]
		b.drop(1)
	}
	return next
}

// putBack makes a run the first again that a slot did not get. The zero run is ignored.
func (b *backlog) putBack(run queuedRun) {
	if run.Task.IsZero() {
		return
	}
	b.mu.Lock()
	b.runs = slices.Insert(b.runs, 0, run)
	b.mu.Unlock()
	signal(b.changed)
}

// take removes and returns the first run, if there is one, for a slot that has given its run back.
// The caller calls takeDone once the slot has the run or can't have it.
func (b *backlog) take(now time.Time, idle int) (next queuedRun, ok bool) {
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

// takeFirst removes and returns the first run, if there is one, for a slot that stands by.
func (b *backlog) takeFirst() (next queuedRun, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.runs) == 0 {
		return next, false
	}
	next = b.runs[0]
	b.drop(1)
	return next, true
}

// overdue returns how many hints on the stream were not claimed within claimWithin (overdue), and
// how many are younger than that (recent).
func (b *backlog) overdue(now time.Time) (overdue, recent int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	recent = b.outstandingSince(now.Add(-claimWithin))
	return len(b.outstanding) - recent, recent
}

// idleSuffice reports whether so many idle slots suffice to claim the hints on the dispatch stream.
func (b *backlog) idleSuffice(idle int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idleSufficeLocked(idle)
}

// idleSufficeLocked is idleSuffice for callers that hold the lock.
func (b *backlog) idleSufficeLocked(idle int) bool { return len(b.outstanding) <= max(0, idle) }

func (b *backlog) takeDone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taking--
}

// drop removes the first n runs.
func (b *backlog) drop(n int) {
	if b.runs = b.runs[n:]; len(b.runs) == 0 {
		b.runs = nil
	}
}

// hintClaimed records that a hint on the dispatch stream was claimed.
func (b *backlog) hintClaimed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastClaim = now
	if len(b.outstanding) > 0 {
		b.outstanding = b.outstanding[1:]
	}
}

// sendFailed puts runs back that Redis did not take. Nothing else goes on the stream for
// redisRetryAfter; again says when to look next. Slots are no longer expected to claim what is on
// the stream, nor these hints, should they be there nevertheless.
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

// sendSucceeded records that Redis works.
func (b *backlog) sendSucceeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pausedUntil = time.Time{}
}

// isPaused reports whether nothing goes on the dispatch stream because Redis failed.
func (b *backlog) isPaused(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.pausedUntil)
}

// isRefused reports whether Redis refused the last hints that were offered to it.
func (b *backlog) isRefused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.pausedUntil.IsZero()
}

// streamUnreadable records that the dispatch stream can't be read, so no slot can claim the hints
// on it.
func (b *backlog) streamUnreadable(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastClaim, b.outstanding = now, nil
}

// hasEnough reports whether the backlog fills half of the room, so that no more runs need be picked
// yet. Each pick is a transaction.
func (b *backlog) hasEnough(room int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs) > room/2
}

// sendDue puts due runs on the dispatch stream until ctx ends. It sends all of them at once if
// other replicas are alive, whose slots may be idle, or if this replica has no slots.
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
		lookAgain := s.dismissForOverdue(time.Now())
		s.assignBacklog(ctx)
		idle := s.pullingSlots()
		if s.hasOthers.Load() || s.slots.count() == 0 {
			idle = math.MaxInt
		}
		hints, again := s.backlog.takeDue(time.Now(), idle)
		if err := s.publishHints(ctx, hints); err != nil && ctx.Err() == nil {
			s.Bus.LogFailure(ctx, "announcing failed", err)
			again = s.backlog.sendFailed(time.Now(), hints)
			s.assignBacklog(ctx)
		}
		if again.IsZero() && lookAgain {
			again = time.Now().Add(claimWithin)
		}
		if !again.IsZero() {
			wait.Reset(time.Until(again))
		}
	}
}

// publishHints puts hints on the dispatch stream.
func (s *Service) publishHints(ctx context.Context, hints []dispatch.Hint) error {
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
