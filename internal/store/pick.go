package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// Caps limit how many runs are with workers at once, in addition to the cap of each session; 0 is
// no cap. Runs over a cap wait.
type Caps struct {
	Tenant int // of one tenant's sessions
	All    int // of the whole installation
}

// Validate refuses a negative cap, under which nothing would ever run.
func (c Caps) Validate() error {
	switch {
	case c.Tenant < 0:
		return fmt.Errorf("the cap on running tasks of a tenant (--max-tenant) is %d, must not be negative: 0 is no cap", c.Tenant)
	case c.All < 0:
		return fmt.Errorf("the cap on running tasks of all tenants (--max-all) is %d, must not be negative: 0 is no cap", c.All)
	}
	return nil
}

// tenantTurns decides whose turn it is: tenants take turns as sessions do, by start-time fair
// queueing. Turns affect only the order, so each replica keeps its own and starts without any. Only
// the committer of steps uses it.
type tenantTurns struct {
	virtualTime int64
	last        map[string]int64 // by tenant
	offered     int
}

func newTenantTurns() *tenantTurns { return &tenantTurns{last: map[string]int64{}} }

// maxTenantTurns is the number of tenants above which all turns are forgotten.
const maxTenantTurns = 10_000

// nextTurn gives the turn that a tenant would have next.
func (t *tenantTurns) nextTurn(tenant string) int64 { return max(t.virtualTime, t.last[tenant]) + 1 }

func (t *tenantTurns) takeTurn(tenant string) {
	if len(t.last) > maxTenantTurns {
		clear(t.last)
	}
	turn := t.nextTurn(tenant)
	t.last[tenant], t.virtualTime = turn, turn-1
	t.offered++
}

// backgroundShare is the share of background runs while interactive runs wait: one in so many.
const backgroundShare = 8

// candidate is a ready run, and how many more runs its session may have, without counting
// announcements.
type candidate struct {
	Ready
	free int
}

// pick is one choice of runs to announce.
type pick struct {
	*tenantTurns
	caps      Caps
	room      int
	announced map[tree.SessionID]int
	used      map[string]int // runs by tenant; only with caps
	usedAll   int
	queues    map[queue]*queueState
	taken     []Ready
	marks     [][]any // updates of the runs that are taken or held back
	precedence
}

func newPick(t *tenantTurns, caps Caps, room int) *pick {
	return &pick{
		tenantTurns: t, caps: caps, room: room, announced: map[tree.SessionID]int{}, used: map[string]int{},
		queues: map[queue]*queueState{}, precedence: precedence{byPrecedence: map[sessionLine][]Ready{}, chosen: map[tree.TaskID]bool{}, retagged: map[tree.TaskID]Ready{}},
	}
}

// takeReady picks runs, one picker at a time. It skips rows that are locked, so it never waits for
// a session's transaction, which may be waiting for it.
func (b *batch) takeReady(ctx context.Context, room int, lease time.Duration, ordered bool) ([]Ready, error) {
	p := newPick(b.tenantTurns, b.Caps, room)
	p.hasPrecedence = ordered
	lock := lookup{"ready_lock", [][]any{{}}, func(row) error { return nil }}
	if err := b.tx.load(ctx, lock, b.clockLookup()); err != nil {
		return nil, err
	}
	b.now = b.dbNow()
	if err := b.tx.load(ctx, p.inForce(b.now, lease)...); err != nil {
		return nil, err
	}
	if p.room <= 0 {
		return nil, nil
	}
	err := b.candidates(ctx, p, lease)
	for more := true; more; {
		if err != nil {
			return nil, err
		}
		more = p.choose(b.now.Add(lease))
		if err := b.saveChoice(ctx, p); err != nil {
			return nil, err
		}
		if more {
			err = b.fill(ctx, p)
		}
	}
	if len(p.taken) == 0 {
		return nil, nil
	}
	for _, r := range p.taken {
		b.dbClock.virtualTime = max(b.dbClock.virtualTime, r.fairTag)
	}
	b.advanceVirtualTime(b.dbClock.virtualTime)
	return p.taken, b.tx.save(ctx, "ready_turn", []any{b.dbClock.virtualTime})
}

// saveChoice writes what was chosen.
func (b *batch) saveChoice(ctx context.Context, p *pick) error {
	if err := b.tx.save(ctx, "ready_mark", p.marks...); err != nil {
		return err
	}
	p.marks = nil
	return b.tx.save(ctx, "ready_later", p.retaggedRows()...)
}

// inForce looks up what is announced, and what counts for the caps.
func (p *pick) inForce(now time.Time, lease time.Duration) []lookup {
	lookups := []lookup{{"ready_announced", [][]any{announcementBounds(now, lease)}, func(row row) error {
		var session tree.SessionID
		var n int
		err := row.Scan(idColumn(&session), &n)
		p.announced[session] = n
		p.room -= n
		return err
	}}}
	if p.caps == (Caps{}) {
		return lookups
	}
	return append(lookups, lookup{"ready_used", [][]any{{}}, func(row row) error {
		var tenant string
		var n int
		err := row.Scan(&tenant, &n)
		p.used[tenant] = n
		p.usedAll += n
		return err
	}})
}

// announcementBounds gives the range of times at which current announcements expire.
func announcementBounds(now time.Time, lease time.Duration) []any {
	return []any{now.UnixMicro(), now.Add(inForce(lease)).UnixMicro()}
}

// choose takes runs while there is room, and holds back those whose sessions have none. It reports
// whether more of the queue whose turn it is has to be read.
func (p *pick) choose(until time.Time) (more bool) {
	for len(p.taken) < p.room {
		q, any := p.next()
		if !any {
			return false
		}
		w := p.queues[q]
		if w.needsRead() && !w.nextIsAnnounced() {
			return true
		}
		c := w.take(0)
		r := c.Ready
		switch {
		case p.announced[r.Session] < c.free:
			r = p.runForTurn(w, c)
			p.announced[r.Session]++
			if r.Again = r.announcedUntil > 0; !r.Again {
				p.used[r.tenant]++
				p.usedAll++
			}
			p.takeTurn(r.tenant)
			p.taken = append(p.taken, r)
			p.mark(&r, until.UnixMicro())
		case r.announcedUntil != heldBack:
			p.mark(&r, heldBack)
		}
	}
	return false
}

// next gives the queue whose turn it is; false if there is none.
func (p *pick) next() (best queue, any bool) {
	first := 1
	if (p.offered+1)%backgroundShare == 0 {
		first = -1
	}
	for q, w := range p.queues {
		if len(w.runs) == 0 && !w.hasMore || !p.mayRun(q.tenant, w.nextIsAnnounced()) {
			continue
		}
		if !any || cmp.Or(first*(q.priority-best.priority), p.compareTurns(q, best)) < 0 {
			best, any = q, true
		}
	}
	return best, any
}

// compareTurns orders queues by whose turn comes first.
func (p *pick) compareTurns(a, b queue) int {
	return cmp.Or(cmp.Compare(p.nextTurn(a.tenant), p.nextTurn(b.tenant)), cmp.Compare(a.tenant, b.tenant))
}

// mayRun reports whether the caps leave room for a run. A run that was announced before has its
// place already.
func (p *pick) mayRun(tenant string, announced bool) bool {
	return announced ||
		(p.caps.Tenant == 0 || p.used[tenant] < p.caps.Tenant) && (p.caps.All == 0 || p.usedAll < p.caps.All)
}

func (p *pick) mark(r *Ready, until int64) {
	p.marks = append(p.marks, []any{until, idColumn(&r.Session), idColumn(&r.Task), r.Epoch})
}

// capsAllowClaim reports whether a claim may be decided. Under caps only announced runs can be
// claimed, because caps are kept where runs are announced.
func (b *batch) capsAllowClaim(ctx context.Context, id tree.SessionID, c tree.Claim) (bool, error) {
	granted := true // without a row, the core refuses the claim
	if b.Caps == (Caps{}) {
		return granted, nil
	}
	if err := b.lock(ctx); err != nil {
		return false, err
	}
	key := []any{idColumn(&id), idColumn(&c.Task), c.Token.Epoch}
	err := b.tx.load(ctx, lookup{"ready_granted", [][]any{key}, func(row row) error { return row.Scan(&granted) }})
	return granted, err
}
