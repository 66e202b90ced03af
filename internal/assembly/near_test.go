package assembly_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
)

// TestRunsStayWithTheirReplica opens sessions at two replicas, most of them at one, while the
// slots of a worker are divided between both: each is run over the replica that knows it,
// where slots move to.
func TestRunsStayWithTheirReplica(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.database = pgtest.Start(t).Database(t)
	_, one := a.orchestrator()
	_, two := a.orchestrator()
	const sessions, slots = 30, 30
	both := a.connect(one + "," + two)
	work := newClient(t, both)
	for seen := map[string]bool{}; len(seen) < 2; {
		seen[work.hand().replica] = true // slots are divided between those that are connected
	}
	a.worker(one, `steps: [{delay: 1h, text: late}]`, func(w *assembly.Worker) { w.Orchestrator, w.Slots = both, slots })
	conn, err := pgx.Connect(t.Context(), a.database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	until(t, "both replicas have slots", func() bool {
		var there, least int
		if err := conn.QueryRow(t.Context(), "SELECT sum(slots), min(slots) FROM replicas").Scan(&there, &least); err != nil {
			t.Fatal(err)
		}
		return there >= slots && least >= slots/3
	})
	clients, opened := []*client{a.client(one), a.client(two)}, make([][]string, 2)
	for i := range sessions {
		at := min(i%5, 1)
		c := clients[at]
		session := c.create("go").GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetDispatched() != nil })
		opened[at] = append(opened[at], strings.ReplaceAll(session, "-", ""))
	}
	near, reattached := 0, 0
	for i, c := range clients {
		// A stream that has broken since the claim may have gone anywhere.
		var n, moved int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE attach = 1 AND replica = $1), count(*) FILTER (WHERE attach > 1)
			FROM attempts WHERE encode(session, 'hex') = ANY($2)`,
			c.hand().replica, opened[i]).Scan(&n, &moved); err != nil {
			t.Fatal(err)
		}
		near, reattached = near+n, reattached+moved
	}
	if near+reattached < sessions || near < sessions/2 {
		t.Errorf("%d of %d runs are with the replica that their session was opened at, %d have moved since", near, sessions, reattached)
	}
}
