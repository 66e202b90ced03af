package store

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// TestQueuesReadInParts: what is picked does not depend on how much of each queue is read at
// once, and not much more is read than is picked or held back.
func TestQueuesReadInParts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		there := randomQueues(r)
		caps, room, offered := Caps{Tenant: r.IntN(5), All: r.IntN(9)}, 1+r.IntN(12), r.IntN(backgroundShare)
		whole, parts := there.newPick(caps, room, offered), there.newPick(caps, room, offered)
		for _, c := range there {
			if c.announcedUntil == 0 {
				whole.add(c)
			}
		}
		whole.finishRead(nil)
		whole.choose(time.Unix(1, 0))
		read, _ := there.pick(parts)
		if !slices.Equal(ids(whole.taken), ids(parts.taken)) {
			t.Fatalf("seed %d: of whole queues %v are picked, of parts %v", seed, ids(whole.taken), ids(parts.taken))
		}
		if most := 2*len(parts.marks) + 4*room; read > most {
			t.Errorf("seed %d: %d rows are read, of at most %d", seed, read, most)
		}
	}
}

// TestQueuesBehindAFlood: what comes after very many runs that have to be held back is found
// in a few steps.
func TestQueuesBehindAFlood(t *testing.T) {
	t.Parallel()
	const flood, room = 1000, 4
	var there stored
	for i := range flood + 1 {
		c := candidate{free: 1}
		c.Task, c.fairTag = tree.TaskID{byte(i >> 8), byte(i)}, int64(i)
		if i == flood {
			c.Session = tree.SessionID{1}
		}
		there = append(there, c)
	}
	p := there.newPick(Caps{}, room, 0)
	_, times := there.pick(p)
	if len(p.taken) != 2 || p.taken[1].Session != there[flood].Session || times > 10 {
		t.Errorf("%d runs were taken after %d times", len(p.taken), times)
	}
}

// TestTurnsAreTraded: of three runs of a session that go one before another, each has a turn, and
// none of the turns is lost or had twice.
func TestTurnsAreTraded(t *testing.T) {
	t.Parallel()
	run := func(n byte, precedence int, tag int64) candidate {
		c := candidate{free: 9}
		c.Task, c.Precedence, c.fairTag = tree.TaskID{n}, precedence, tag
		return c
	}
	begun, deep, wide, last := run(1, 9, 10), run(2, 1, 1), run(3, 0, 2), run(4, 0, 3)
	p := stored{}.newPick(Caps{}, 3, 0)
	p.hasPrecedence = true
	for _, c := range []candidate{deep, wide, last} {
		p.add(c)
	}
	p.finishRead(nil)
	p.byPrecedence[sessionLine{}] = []Ready{begun.Ready, deep.Ready}
	p.choose(time.Unix(1, 0))
	tags := map[tree.TaskID]int64{}
	for _, r := range p.retagged {
		tags[r.Task] = r.fairTag
	}
	for _, r := range p.taken {
		tags[r.Task] = r.fairTag
	}
	want := map[tree.TaskID]int64{begun.Task: 1, deep.Task: 2, wide.Task: 10, last.Task: 3}
	if !maps.Equal(tags, want) || !slices.Equal(ids(p.taken), []tree.TaskID{begun.Task, deep.Task, last.Task}) {
		t.Errorf("taken were %v, and the turns are %v, not %v", ids(p.taken), tags, want)
	}
}

// stored are the ready runs of a database.
type stored []candidate

// randomQueues are some runs of a few tenants' sessions, which were announced, are held back,
// or wait for it.
func randomQueues(r *rand.Rand) (there stored) {
	now := time.Unix(0, 0)
	for tenant := range 1 + r.IntN(6) {
		for session := range 1 + r.IntN(3) {
			free, tag := r.IntN(8), int64(r.IntN(5))
			for range r.IntN(12) {
				c := candidate{free: free}
				tag += int64(r.IntN(3))
				now = now.Add(1)
				c.tenant, c.Session, c.Priority = fmt.Sprint("tenant-", tenant), tree.SessionID{1: byte(tenant), 2: byte(session)}, r.IntN(2)
				c.Task, c.fairTag, c.At = tree.TaskID{byte(len(there))}, tag, now
				c.announcedUntil = []int64{0, 0, 0, 0, heldBack, 1}[r.IntN(6)]
				there = append(there, c)
			}
		}
	}
	return there
}

// newPick is a look at all but what is due.
func (there stored) newPick(caps Caps, room, offered int) *pick {
	p := newPick(newTenantTurns(), caps, room)
	p.offered = offered
	for _, c := range there {
		if c.announcedUntil == 0 {
			continue
		}
		p.add(c)
		if c.announcedUntil > 0 {
			p.used[c.tenant]++
			p.usedAll++
		}
	}
	return p
}

// pick picks, and reads of each queue what is asked for. It counts the rows that it has read,
// and the times.
func (there stored) pick(p *pick) (read, times int) {
	for _, c := range there {
		if c.announcedUntil == 0 {
			p.queue(queue{c.tenant, c.Priority}).hasMore = true
		}
	}
	for more := true; more; more = p.choose(time.Unix(1, 0)) {
		times++
		next := p.queuesToRead()
		for _, q := range next {
			for _, c := range there.due(p, q) {
				p.add(c)
				read++
			}
		}
		p.finishRead(next)
	}
	return read, times
}

// due are the next runs of a queue that are not marked yet.
func (there stored) due(p *pick, q queue) (due []candidate) {
	marked := map[tree.TaskID]bool{}
	for _, m := range p.marks {
		marked[tree.TaskID(*m[2].(id16).id)] = true
	}
	for _, c := range there {
		if c.announcedUntil == 0 && !marked[c.Task] && (queue{c.tenant, c.Priority}) == q {
			due = append(due, c)
		}
	}
	slices.SortStableFunc(due, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.fairTag, b.fairTag), a.At.Compare(b.At)) })
	return due[:min(len(due), p.queues[q].readLimit)]
}

func ids(taken []Ready) (ids []tree.TaskID) {
	for _, r := range taken {
		ids = append(ids, r.Task)
	}
	return ids
}
