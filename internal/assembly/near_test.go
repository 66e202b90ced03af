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
	clients := []*client{a.client(one), a.client(two)}
	replicas := []string{clients[0].hand().replica, clients[1].hand().replica}
	near, moved := 0, 0
	for i := range sessions {
		at := min(i%5, 1)
		c := clients[at]
		session := c.create("go").GetId()
		c.events(session, func(e *pb.Event) bool { return e.GetDispatched() != nil })
		var replica string
		var attach int
		if err := conn.QueryRow(t.Context(), "SELECT replica, attach FROM attempts WHERE encode(session, 'hex') = $1",
			strings.ReplaceAll(session, "-", "")).Scan(&replica, &attach); err != nil {
			t.Fatal(err)
		}
		switch {
		case attach > 1: // its stream has broken since the claim, and may have gone anywhere
			moved++
		case replica == replicas[at]:
			near++
		}
	}
	if near+moved < sessions || near < sessions/2 {
		t.Errorf("%d of %d runs are with the replica that their session was opened at, %d have moved since", near, sessions, moved)
	}
}
