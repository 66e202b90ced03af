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

// stock holds the runs that count as announced and for which no slot is idle. A slot of
// this replica that gives its run back gets the first of them with the answer, without
// being told over the dispatch stream and without asking. What idle slots wait for goes on
// the stream. So do a few that no slot has taken within keepFor, for whoever may come from
// elsewhere, and for those who count what waits there; the others stay, since each that goes over
// the stream is asked for and claimed by itself. What is lost with the process is announced
// again when its lease is over.
type stock struct {
	mu       sync.Mutex
	runs     []waitingRun // the oldest first
	onStream []time.Time  // when hints went on the dispatch stream that nobody has come for, the oldest first; see reconcile
	last     time.Time    // when somebody came for a hint, or none could be waited for
	away     time.Time    // until when nothing goes on the dispatch stream, and then one hint, as Redis has not taken the last; zero: it has
	drawing  int          // slots that are about to have a run of these
	some     chan struct{}
}

// waitingRun is a run that is to be claimed.
type waitingRun struct {
	dispatch.Hint
	since time.Time
}

// same reports whether it is the same run.
func (r waitingRun) same(other waitingRun) bool {
	return r.Task == other.Task && r.Epoch == other.Epoch
}

const (
	// keepFor is how long a run may be kept for the slots of this replica: short beside what a
	// model takes, long beside what a task takes that asks none.
	keepFor = 200 * time.Millisecond
	// comeWithin is how long an idle slot takes to come for a hint, where nothing holds it up.
	comeWithin = 20 * time.Millisecond
	// redisPatience is how long Redis may take for what keeps other runs waiting.
	redisPatience = time.Second
	// tryAgain is how long after Redis has not taken a hint it is offered the next one.
	tryAgain = time.Second
	// keptOnStream is up to how many hints on the stream there may be more for what was kept.
	keptOnStream = announceAtLeast
)

func newStock() *stock { return &stock{some: make(chan struct{}, 1)} }

// add takes in runs that count as announced. One that is announced again may be here still.
func (k *stock) add(now time.Time, ready ...store.Ready) {
	if len(ready) == 0 {
		return
	}
	k.mu.Lock()
	for _, r := range ready {
		run := waitingRun{dispatch.Hint{Session: r.Session, Task: r.Task, Epoch: r.Epoch, From: r.Replica}, now}
		if !r.Again || !slices.ContainsFunc(k.runs, run.same) {
			k.runs = append(k.runs, run)
		}
	}
	k.mu.Unlock()
	poke(k.some)
}

// committed takes in what has become ready, and reports whether any of it waits for its turn.
func (k *stock) committed(now time.Time, ready []store.Ready) (waiting bool) {
	var ahead []store.Ready
	for _, r := range ready {
		if r.AnnouncedOnCommit {
			ahead = append(ahead, r)
		} else {
			waiting = true
		}
	}
	k.add(now, ahead...)
	return waiting
}

// due gives the runs that are to go on the dispatch stream: as many as there are idle slots
// beside those that something is on its way to, and a few of those that have been kept for long
// enough. It tells when to look again; zero if there is nothing left.
func (k *stock) due(now time.Time, idle int) (hints []dispatch.Hint, again time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.runs) > 0 && now.Before(k.away) {
		return nil, k.away
	}
	n := min(len(k.runs), max(0, idle-k.drawing-k.since(now.Add(-keepFor))))
	for n < len(k.runs) && now.Sub(k.runs[n].since) >= keepFor && n+len(k.onStream) < keptOnStream {
		n++
	}
	if !k.away.IsZero() {
		n = min(n, 1) // slots of this replica can't have what is offered, as long as that takes
	}
	for _, r := range k.runs[:n] {
		hints = append(hints, r.Hint)
		k.onStream = append(k.onStream, now)
	}
	k.drop(n)
	switch soon := now.Add(comeWithin); {
	case len(k.runs) == 0:
	case idle > k.drawing || soon.After(k.runs[0].since.Add(keepFor)):
		again = soon
	default:
		again = k.runs[0].since.Add(keepFor)
	}
	return hints, again
}

// since is how many hints went on the stream after a time that nobody has come for.
func (k *stock) since(begin time.Time) int {
	before := 0
	for before < len(k.onStream) && !k.onStream[before].After(begin) {
		before++
	}
	return len(k.onStream) - before
}

// reconcile says how many hints on the dispatch stream nobody has read. Slots have to come for all
// of them, whoever put them there, unless idle ones don't: their workers do not reach Redis.
// Beyond those, what nobody has come for in a while is lost, or its claim was another replica's.
func (k *stock) reconcile(now time.Time, unread, idle int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case unread == 0 || idle == 0:
		k.last = now
	case now.Sub(k.last) > announceLease:
		unread = 0
	}
	for len(k.onStream) > unread && now.Sub(k.onStream[0]) > announceLease {
		k.onStream = k.onStream[1:]
	}
	if unknown := unread - len(k.onStream); unknown > 0 {
		since := now.Add(-comeWithin)
		if len(k.onStream) > 0 && k.onStream[0].Before(since) {
			since = k.onStream[0]
		}
		k.onStream = append(slices.Repeat([]time.Time{since}, unknown), k.onStream...)
	}
	if len(k.onStream) > 0 {
		poke(k.some)
	}
}

// mayDraw reports whether there is a run for a slot that has become free. What has been on the
// dispatch stream for a while has waited for longer: the slot has to come for that, unless there
// are idle slots enough to do so. Were all that become free sent there, as many hints more would
// be, and it would not become empty before everything is done.
func (k *stock) mayDraw(now time.Time, idle int) bool {
	return len(k.runs) > 0 && (k.comeFor(idle-k.drawing) || now.Sub(k.onStream[0]) < comeWithin)
}

// drawFor gives the first run if its session fits, for a slot that is about to give its run
// back.
func (k *stock) drawFor(now time.Time, idle int, fits func(tree.SessionID) bool) (next waitingRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mayDraw(now, idle) && fits(k.runs[0].Session) {
		next = k.runs[0]
		k.drop(1)
	}
	return next
}

// back takes a run back that a slot was to have and has not got; it may be none. It is the
// first again.
func (k *stock) back(run waitingRun) {
	if run.Task.IsZero() {
		return
	}
	k.mu.Lock()
	k.runs = slices.Insert(k.runs, 0, run)
	k.mu.Unlock()
	poke(k.some)
}

// draw gives a slot that has given its run back the first run, if there is one. Once the slot
// has the run, or can't have it, it says so with drawn.
func (k *stock) draw(now time.Time, idle int) (next waitingRun, any bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.mayDraw(now, idle) {
		return next, false
	}
	next = k.runs[0]
	k.drop(1)
	k.drawing++
	return next, true
}

// drawAny gives the first run, if there is one, for a slot that waits.
func (k *stock) drawAny() (next waitingRun, any bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.runs) == 0 {
		return next, false
	}
	next = k.runs[0]
	k.drop(1)
	return next, true
}

// late is how many hints are on the dispatch stream that nobody has come for in time, and
// how many somebody is on the way for.
func (k *stock) late(now time.Time) (late, coming int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	coming = k.since(now.Add(-comeWithin))
	return len(k.onStream) - coming, coming
}

// enoughFor reports whether so many idle slots are enough to come for what is on the dispatch
// stream.
func (k *stock) enoughFor(idle int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.comeFor(idle)
}

// comeFor is enoughFor with the lock.
func (k *stock) comeFor(idle int) bool { return len(k.onStream) <= max(0, idle) }

func (k *stock) drawn() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drawing--
}

// drop forgets the first runs.
func (k *stock) drop(n int) {
	if k.runs = k.runs[n:]; len(k.runs) == 0 {
		k.runs = nil
	}
}

// came says that somebody has come for a hint on the dispatch stream.
func (k *stock) came(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = now
	if len(k.onStream) > 0 {
		k.onStream = k.onStream[1:]
	}
}

// notSent takes back what has not come to be on the dispatch stream. For tryAgain nothing else
// goes there; it gives when to look again. No slot has to come for what is there, nor for this,
// should it be there all the same.
func (k *stock) notSent(now time.Time, hints []dispatch.Hint) (again time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var back []waitingRun
	for _, h := range hints {
		back = append(back, waitingRun{h, now.Add(-keepFor)})
	}
	k.runs = slices.Concat(back, k.runs)
	k.away, k.onStream = now.Add(tryAgain), nil
	return k.away
}

// sent says that Redis has taken what was offered to it.
func (k *stock) sent() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = time.Time{}
}

// isAway reports whether nothing goes on the dispatch stream.
func (k *stock) isAway(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Before(k.away)
}

// unread says that the dispatch stream can't be read: no slot can come for what is there.
func (k *stock) unread(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.onStream = now, nil
}

// enough reports whether there is work for half of so much room, so that more need not be
// picked yet: each pick is a transaction.
func (k *stock) enough(room int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.runs) > room/2
}

// sendDue puts what is due on the dispatch stream until ctx ends. All of it goes there at
// once where other replicas are alive, whose slots may be idle, and where this one has none.
func (s *Service) sendDue(ctx context.Context) error {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-s.stock.some:
		case <-wait.C:
		case <-ctx.Done():
			return nil
		}
		unsure := s.relieve(time.Now())
		s.giveKept(ctx)
		idle := s.pulling()
		if s.others.Load() || s.census.slots() == 0 {
			idle = math.MaxInt
		}
		hints, again := s.stock.due(time.Now(), idle)
		if err := s.offer(ctx, hints); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "announcing failed", "error", err)
			again = s.stock.notSent(time.Now(), hints)
			s.giveKept(ctx)
		}
		if again.IsZero() && unsure {
			again = time.Now().Add(comeWithin)
		}
		if !again.IsZero() {
			wait.Reset(time.Until(again))
		}
	}
}

// offer puts hints on the dispatch stream, if there are any and Redis takes them.
func (s *Service) offer(ctx context.Context, hints []dispatch.Hint) error {
	if len(hints) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	if err := s.Bus.Announce(ctx, s.Pool, hints); err != nil {
		return err
	}
	s.stock.sent()
	return nil
}
