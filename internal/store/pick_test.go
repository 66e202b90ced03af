package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestPickReads: a pick reads about as much as it takes, however many tenants wait with
// however much, and gives each its turn.
func TestPickReads(t *testing.T) {
	t.Parallel()
	const room = 20
	for name, c := range map[string]struct {
		waiting []int // runs, by tenant
		asked   int   // at most, of queues
		loudest int   // what the tenant gets that has most
		tenants int   // that get something
	}{
		"one":            {waiting: []int{60}, asked: 1, loudest: room, tenants: 1},
		"many":           {waiting: repeat(60, 3), asked: room, loudest: 1, tenants: room},
		"some":           {waiting: repeat(8, 6), asked: 8, loudest: 3, tenants: 8},
		"one among idle": {waiting: append(repeat(10, 1), 60), asked: 12, loudest: room - 10, tenants: 11},
		"enough for all": {waiting: repeat(5, 2), asked: 5, loudest: 2, tenants: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, looks := queued(t, c.waiting)
			taken, err := db.PickReady(t.Context(), room, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			all, most, got := 0, 0, map[tree.SessionID]int{}
			for _, n := range c.waiting {
				all += n
			}
			for _, r := range taken {
				got[r.Session]++
				most = max(most, got[r.Session])
			}
			if len(taken) != min(room, all) || most != c.loudest || len(got) != c.tenants {
				t.Errorf("%d runs of %d tenants were taken, of one %d", len(taken), len(got), most)
			}
			if asked, rows := looks.Of("ready_due"); rows > 2*room || asked > c.asked {
				t.Errorf("%d rows of %d queues were read to take %d", rows, asked, len(taken))
			}
		})
	}
}

func repeat(n, value int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = value
	}
	return all
}

// queued opens a store in which tenants have so many runs each that wait, in a session.
func queued(t *testing.T, runs []int) (*store.Store, *store.Looks) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{Database: pgtest.Start(t).Database(t)}) // in SQLite, a replica is always alone
	if err != nil {
		t.Fatal(err)
	}
	looks := store.CountLooks(db)
	commits(t, db)
	var sent []*store.Pending
	submit := func(id tree.SessionID, cmd tree.Command) {
		p, err := db.Submit(t.Context(), id, cmd)
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, p)
	}
	for i, n := range runs {
		cmd := open(newSession())
		cmd.Tenant = fmt.Sprintf("tenant-%03d", i)
		cmd.Limits.Running, cmd.Limits.Width = n, n+1
		submit(cmd.ID, cmd)
		for range n {
			submit(cmd.ID, spawn("work"))
		}
	}
	for _, p := range sent {
		if _, err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	looks.Forget()
	return db, looks
}

// TestPickAlone: a replica that is the only one picks without the table of ready runs, which it has
// read once. When another replica is there, it picks from the table, and knows what it has picked
// before.
func TestPickAlone(t *testing.T) {
	t.Parallel()
	db, looks := queued(t, []int{6, 6})
	beat := func(replica string) {
		t.Helper()
		if _, err := db.Heartbeat(t.Context(), replica, 1, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	pick := func(room int) []store.Ready {
		t.Helper()
		taken, err := db.PickReady(t.Context(), room, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	beat("replica-1")
	picked := map[tree.TaskID]bool{}
	for _, room := range []int{4, 8} {
		taken := pick(room)
		if len(taken) != 4 || taken[0].Session == taken[1].Session {
			t.Errorf("with room for %d were picked %+v", room, taken)
		}
		for _, r := range taken {
			if r.Again || picked[r.Task] {
				t.Errorf("%s was picked before", r.Task)
			}
			picked[r.Task] = true
		}
	}
	if asked, _ := looks.Of("ready_due"); asked != 0 {
		t.Errorf("%d queues were read", asked)
	}
	beat("replica-2")
	taken := pick(100)
	for _, r := range taken {
		if r.Again != picked[r.Task] {
			t.Errorf("that %s was picked before is %v", r.Task, r.Again)
		}
	}
	if asked, _ := looks.Of("ready_due"); len(taken) != 12 || asked == 0 {
		t.Errorf("beside another replica, %d were picked from %d queues", len(taken), asked)
	}
}
