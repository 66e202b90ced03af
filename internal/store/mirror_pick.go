package store

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// pickMirrored picks runs from the mirror, as PickReady does. It reports false if they have to be
// picked from the table.
func (s *Store) pickMirrored(ctx context.Context, room int, lease time.Duration) (taken []Ready, ok bool, err error) {
	now := s.now()
	if s.mirror.beginLoad(now) {
		if err := s.loadMirror(ctx, now); err != nil {
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

// loadMirror reads the table of ready runs into the mirror.
func (s *Store) loadMirror(ctx context.Context, now time.Time) error {
	var rows []Ready
	var held bool
	err := s.db.load(ctx,
		lookup{"ready_any_held", [][]any{{}}, func(row row) error { return row.Scan(&held) }},
		lookup{"ready_rows", [][]any{{maxMirrored + 1}}, func(row row) error {
			var r Ready
			err := row.Scan(readyRow(&r)...)
			rows = append(rows, r)
			return err
		}})
	s.mirror.load(now, rows, err == nil && !held && len(rows) <= maxMirrored)
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
	p.hasPrecedence = len(m.ordered) > 0
	for q := range m.queues {
		p.queue(q).hasMore = true
	}
	for p.choose(now) {
		m.fill(p)
	}
	for _, r := range p.retagged {
		run := m.runs[r.Task]
		run.fairTag, run.queued = r.fairTag, false
	}
	for _, r := range p.taken {
		m.setPicked(m.runs[r.Task], now)
	}
	// What was read and not taken waits on.
	for task := range p.retagged {
		m.push(m.runs[task])
	}
	for _, w := range p.queues {
		for _, c := range w.runs {
			m.push(m.runs[c.Task])
		}
	}
	return p.taken
}

// fill gives a pick the next runs of the queues that it has to read.
func (m *mirror) fill(p *pick) {
	next := p.queuesToRead()
	for _, q := range next {
		for range p.queues[q].readLimit {
			run := m.pop(q)
			if run == nil {
				break
			}
			p.add(candidate{run.Ready, math.MaxInt})
		}
	}
	p.finishRead(next)
	for _, l := range p.linesToRead() {
		for _, run := range m.ordered[l.sessionLine] {
			p.byPrecedence[l.sessionLine] = append(p.byPrecedence[l.sessionLine], run.Ready)
		}
		slices.SortFunc(p.byPrecedence[l.sessionLine], func(a, b Ready) int {
			return cmp.Or(b.Precedence-a.Precedence, cmp.Compare(a.fairTag, b.fairTag))
		})
	}
}

// push queues a run that waits, unless it is queued already.
func (m *mirror) push(run *mirroredRun) {
	if run.queued || !run.pickedAt.IsZero() {
		return
	}
	run.queued = true
	q := queue{run.tenant, run.Priority}
	if m.queues[q] == nil {
		m.queues[q] = &runHeap{}
	}
	m.queues[q].push(run)
	if run.Precedence == 0 {
		return
	}
	l := run.line()
	if m.ordered[l] == nil {
		m.ordered[l] = map[tree.TaskID]*mirroredRun{}
	}
	m.ordered[l][run.Task] = run
}

// unqueue takes a run out of its queue. Its place in the heap is skipped later.
func (m *mirror) unqueue(run *mirroredRun) {
	run.queued = false
	if l := run.line(); run.Precedence > 0 {
		if delete(m.ordered[l], run.Task); len(m.ordered[l]) == 0 {
			delete(m.ordered, l)
		}
	}
}

// pop takes the next run out of a queue; nil if it is empty.
func (m *mirror) pop(q queue) *mirroredRun {
	h := m.queues[q]
	for h != nil && len(*h) > 0 {
		if next := h.pop(); next.queued && next.tag == next.fairTag {
			next.queued = false
			return next.mirroredRun
		}
	}
	delete(m.queues, q)
	return nil
}

// runHeap has the runs of a queue, the next one first. Runs that have gone, or have got another tag,
// are skipped when they are taken out.
type runHeap []heapRun

// heapRun is a run with the tag that it was queued with.
type heapRun struct {
	*mirroredRun
	tag int64
}

// Len implements heap.Interface.
func (h runHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h runHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].tag, h[j].tag), h[i].At.Compare(h[j].At), byAge(h[i].Session, h[j].Session)) < 0
}

// Swap implements heap.Interface.
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *runHeap) Push(x any) { *h = append(*h, x.(heapRun)) } //nolint:forcetypeassert // only push calls it

// Pop implements heap.Interface.
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (h *runHeap) push(run *mirroredRun) { heap.Push(h, heapRun{run, run.fairTag}) }

func (h *runHeap) pop() heapRun { return heap.Pop(h).(heapRun) } //nolint:forcetypeassert // only push adds to it
