package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// queue names the ready runs of one tenant and priority.
type queue struct {
	tenant   string
	priority int
}

// queueState is what was read of a queue.
type queueState struct {
	runs      []candidate // next first
	due       int         // runs that are neither announced nor held back
	readLimit int         // due runs per read
	hasMore   bool        // there may be more due runs to read
}

// take removes and gives the i-th run.
func (w *queueState) take(i int) candidate {
	c := w.runs[i]
	copy(w.runs[1:], w.runs[:i])
	w.runs = w.runs[1:]
	if c.announcedUntil == 0 {
		w.due--
	}
	return c
}

// needsRead reports whether the queue has to be read to know its next due run.
func (w *queueState) needsRead() bool { return w.hasMore && w.due == 0 }

// nextIsAnnounced reports whether the next run was announced before.
func (w *queueState) nextIsAnnounced() bool { return len(w.runs) > 0 && w.runs[0].announcedUntil > 0 }

// candidates reads the runs that may be announced: the queues and their beginnings, runs whose
// announcement has expired, and as many held-back runs as their sessions have room for.
func (b *batch) candidates(ctx context.Context, p *pick, lease time.Duration) error {
	free := map[tree.SessionID]int{}
	err := b.tx.load(ctx,
		lookup{"ready_queues", [][]any{{}}, func(row row) error {
			var q queue
			err := row.Scan(&q.tenant, &q.priority)
			p.queue(q).hasMore = true
			return err
		}},
		lookup{"ready_expired", [][]any{announcementBounds(b.now, lease)}, p.scanCandidate},
		lookup{"ready_full", [][]any{{}}, func(row row) error {
			var session tree.SessionID
			var n int
			err := row.Scan(idColumn(&session), &n)
			free[session] = n
			return err
		}})
	if err != nil {
		return err
	}
	var held [][]any
	for id, n := range free {
		if n -= p.announced[id]; n > 0 {
			held = append(held, []any{idColumn(&id), min(n, p.room)})
		}
	}
	return b.fill(ctx, p, lookup{"ready_held", held, func(row row) error {
		var c candidate
		err := row.Scan(readyRow(&c.Ready)...)
		c.free = free[c.Session]
		p.add(c)
		return err
	}})
}

// fill reads on in the queues that need it, together with other lookups. Rows that were read before
// are marked, so they are not read again.
func (b *batch) fill(ctx context.Context, p *pick, also ...lookup) error {
	next := p.queuesToRead()
	var due [][]any
	for _, q := range next {
		due = append(due, []any{q.tenant, q.priority, p.queues[q].readLimit})
	}
	if err := b.tx.load(ctx, append(also, lookup{"ready_due", due, p.scanCandidate})...); err != nil {
		return err
	}
	p.finishRead(next)
	var first [][]any
	for _, l := range p.linesToRead() {
		first = append(first, []any{idColumn(&l.session), l.priority, l.limit})
	}
	return b.tx.load(ctx, lookup{"ready_first", first, p.scanFirst})
}

// queuesToRead gives the queues to read on: of each priority those whose turn comes first, as many
// as there is room for. Each is read as far as its share of the room, if all have enough. A queue
// that is used up, because others have less or because many of its runs are held back, is read on
// by twice as much.
func (p *pick) queuesToRead() (next []queue) {
	room, of := p.room-len(p.taken), map[int]int{}
	for q, w := range p.queues {
		if w.needsRead() && p.mayRun(q.tenant, false) {
			next = append(next, q)
		}
	}
	slices.SortFunc(next, p.compareTurns)
	next = slices.DeleteFunc(next, func(q queue) bool {
		of[q.priority]++
		return of[q.priority] > room
	})
	for _, q := range next {
		w := p.queues[q]
		w.readLimit = max(min(room, room/min(room, of[q.priority])+1), 2*w.readLimit)
	}
	return next
}

// finishRead notes how far queues were read, and orders them. Runs that were announced before come
// first: they have their place already, and may be what keeps others from one.
func (p *pick) finishRead(read []queue) {
	for _, q := range read {
		w := p.queues[q]
		w.hasMore = w.due >= w.readLimit
	}
	last := func(c candidate) int {
		if c.announcedUntil > 0 {
			return 0
		}
		return 1
	}
	for _, w := range p.queues {
		slices.SortFunc(w.runs, func(a, b candidate) int {
			return cmp.Or(last(a)-last(b), cmp.Compare(a.fairTag, b.fairTag), a.At.Compare(b.At))
		})
	}
}

// scanCandidate takes in the row of a run that may be announced.
func (p *pick) scanCandidate(row row) error {
	var c candidate
	err := row.Scan(append(readyRow(&c.Ready), &c.free)...)
	p.add(c)
	return err
}

func (p *pick) add(c candidate) {
	w := p.queue(queue{c.tenant, c.Priority})
	w.runs = append(w.runs, c)
	if c.announcedUntil == 0 {
		w.due++
	}
}

func (p *pick) queue(q queue) *queueState {
	w := p.queues[q]
	if w == nil {
		w = &queueState{}
		p.queues[q] = w
	}
	return w
}
