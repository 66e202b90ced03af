package store

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"
)

// pickMirrored picks runs from the mirror, as PickReady does. It reports false if they have to be
// picked from the table.
func (s *Store) pickMirrored(ctx context.Context, room int, lease time.Duration) (taken []Ready, ok bool, err error) {
	now := s.now()
	if due, complete := s.mirror.beginLoad(now); due {
		if err := s.loadMirror(ctx, now, complete); err != nil {
			return nil, false, err
		}
	}
	taken, inForce, waiting, ok := s.mirror.take(now, room, lease)
	if ok && !waiting {
		s.window.open(room, inForce, lease)
	}
	if len(taken) == 0 {
		return nil, ok, nil
	}
	virtualTime := s.virtualTime.Load()
	for _, r := range taken {
		virtualTime = max(virtualTime, r.fairTag)
	}
	s.advanceVirtualTime(virtualTime)
	if s.mirror.storesTurn(now) {
		_, err = s.stepCommitter.submitStep(ctx, func(ctx context.Context, b *batch) error {
			return b.tx.save(ctx, "ready_turn", []any{virtualTime})
		})
	}
	return taken, true, err
}

// loadMirror reads the table of ready runs into the mirror, unless some of them are held back or
// they are too many. Runs without a row get one first, except those that a complete mirror already has.
func (s *Store) loadMirror(ctx context.Context, now time.Time, complete bool) error {
	if err := s.listAll(ctx, complete); err != nil {
		s.mirror.suspend(now.Add(mirrorPause))
		return err
	}
	held, err := one(ctx, s.db, errors.New("no answer"), "ready_any_held", func(held *bool) []any { return []any{held} })
	if err != nil || *held {
		s.mirror.suspend(now.Add(mirrorPause))
		return err
	}
	rows, err := query(ctx, s.db, "ready_rows", readyRow, maxMirrored+1)
	switch {
	case err != nil, slices.ContainsFunc(rows, func(r Ready) bool { return r.announcedUntil == heldBack }):
		s.mirror.suspend(now.Add(mirrorPause))
	case len(rows) > maxMirrored:
		s.mirror.suspend(now.Add(mirrorFor))
	default:
		s.mirror.load(now, rows)
	}
	return err
}

// now is the time by which the mirror judges leases.
func (s *Store) now() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	return time.Now()
}

// storesTurn reports whether the virtual time has to be stored now.
func (m *mirror) storesTurn(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.turnFrom) {
		return false
	}
	m.turnFrom = now.Add(turnEvery)
	return true
}

// take picks runs as [Store.PickReady] does, and says how many are picked and not claimed yet, and
// whether others wait. It reports false if they have to be picked from the table.
func (m *mirror) take(now time.Time, room int, lease time.Duration) (taken []Ready, inForce int, waiting, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.complete {
		return nil, 0, false, false
	}
	taken = m.takeExpired(now, lease)
	if room -= m.inForce; room > 0 {
		taken = append(taken, m.choose(now, room)...)
	}
	return taken, m.inForce, m.waiting(), true
}

// takeExpired picks the runs again that were picked and not claimed within the lease.
func (m *mirror) takeExpired(now time.Time, lease time.Duration) (taken []Ready) {
	for len(m.picked) > 0 && now.Sub(m.picked[0].at) >= lease {
		run := m.picked[0]
		m.picked = m.picked[1:]
		if m.runs[run.Task] != run.mirroredRun || !run.pickedAt.Equal(run.at) {
			continue
		}
		m.setPicked(run.mirroredRun, now)
		again := run.Ready
		again.Again = true
		taken = append(taken, again)
	}
	return taken
}

// choose picks runs that wait.
func (m *mirror) choose(now time.Time, room int) []Ready {
	p := newPick(m.turns, Caps{}, room)
	p.hasPrecedence = len(m.lines) > 0
	for q := range m.queues {
		p.queue(q).hasMore = true
	}
	for p.choose(now) {
		m.apply(p, now)
		m.fill(p)
	}
	m.apply(p, now)
	// What was read and not taken waits on.
	for task := range p.retagged {
		m.push(m.runs[task])
	}
	for _, w := range p.queues {
		for _, c := range w.runs {
			m.push(m.runs[c.Task])
		}
	}
	for _, line := range p.byPrecedence {
		for _, r := range line {
			m.push(m.runs[r.Task])
		}
	}
	return p.taken
}

// apply takes in what a pick has chosen so far.
func (m *mirror) apply(p *pick, now time.Time) {
	for _, r := range p.retagged {
		if run := m.runs[r.Task]; run.fairTag != r.fairTag {
			m.unqueue(run)
			run.fairTag = r.fairTag
		}
	}
	for _, r := range p.taken {
		if run := m.runs[r.Task]; run.pickedAt.IsZero() {
			m.setPicked(run, now)
		}
	}
}

// fill gives a pick the next runs of the queues that it has to read. All that it has read of them
// before is taken, or has another tag and comes up again.
func (m *mirror) fill(p *pick) {
	next := p.queuesToRead()
	for _, r := range p.retagged {
		if q := (queue{r.tenant, r.Priority}); slices.Contains(next, q) {
			m.push(m.runs[r.Task])
		}
	}
	for _, q := range next {
		for run := range pop(m.queues, q, byTurn, p.queues[q].readLimit) {
			p.add(candidate{run.Ready, math.MaxInt})
		}
	}
	p.finishRead(next)
	for _, l := range p.linesToRead() {
		for run := range pop(m.lines, l.sessionLine, byPrecedence, l.limit) {
			p.byPrecedence[l.sessionLine] = append(p.byPrecedence[l.sessionLine], run.Ready)
		}
	}
}

// push queues a run that waits, where it is not queued already.
func (m *mirror) push(run *mirroredRun) {
	if !run.pickedAt.IsZero() {
		return
	}
	push(m.queues, queue{run.tenant, run.Priority}, byTurn, run)
	if run.Precedence > 0 {
		push(m.lines, run.line(), byPrecedence, run)
	}
}

// unqueue takes a run out of its heaps. Its places there are skipped later.
func (m *mirror) unqueue(run *mirroredRun) { run.queued = [2]bool{} }

// heapOrder is one of the orders in which a mirror has its runs.
type heapOrder int

const (
	byTurn       heapOrder = iota // of a queue: the lowest tag first
	byPrecedence                  // of a line: the highest precedence first, then the lowest tag
)

// push adds a run to one of the heaps.
func push[Of comparable](heaps map[Of]*runHeap, of Of, order heapOrder, run *mirroredRun) {
	if run.queued[order] {
		return
	}
	run.queued[order] = true
	if heaps[of] == nil {
		heaps[of] = &runHeap{}
	}
	place := heapRun{run, 0, run.fairTag}
	if order == byPrecedence {
		place.precedence = run.Precedence
	}
	heap.Push(heaps[of], place)
}

// pop takes up to so many runs out of one of the heaps.
func pop[Of comparable](heaps map[Of]*runHeap, of Of, order heapOrder, most int) iter.Seq[*mirroredRun] {
	return func(yield func(*mirroredRun) bool) {
		h := heaps[of]
		for n := 0; n < most && h != nil && len(*h) > 0; {
			next := heap.Pop(h).(heapRun) // only push adds to it
			if !next.isQueued(order) {
				continue
			}
			next.queued[order] = false
			if n++; !yield(next.mirroredRun) {
				return
			}
		}
		if h != nil && len(*h) == 0 {
			delete(heaps, of)
		}
	}
}

// runHeap has runs in a heapOrder. Those that are not queued any more, or were queued again with
// another tag, are skipped when their turn comes.
type runHeap []heapRun

// heapRun is a run's place in a heap.
type heapRun struct {
	*mirroredRun
	precedence int
	tag        int64
}

// isQueued reports whether the run waits in this place.
func (r heapRun) isQueued(order heapOrder) bool { return r.queued[order] && r.tag == r.fairTag }

func (h runHeap) hasQueued(order heapOrder) bool {
	return slices.ContainsFunc(h, func(r heapRun) bool { return r.isQueued(order) })
}

// Len implements heap.Interface.
func (h runHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h runHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return cmp.Or(b.precedence-a.precedence, cmp.Compare(a.tag, b.tag), a.At.Compare(b.At), byAge(a.Session, b.Session)) < 0
}

// Swap implements heap.Interface.
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *runHeap) Push(x any) { *h = append(*h, x.(heapRun)) } // only push calls it

// Pop implements heap.Interface.
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
