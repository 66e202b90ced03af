package assembly_test

import (
	"io"
	"net/http"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/proctest"
)

// TestATakeoverIsCounted kills a replica together with the workers on its streams: the
// other one says how many attempts it has taken back.
func TestATakeoverIsCounted(t *testing.T) {
	t.Parallel()
	d := deploy(t, heldTree)
	d.database = pgtest.Start(t).Database(t)
	pages := []string{proctest.FreeAddress(t), proctest.FreeAddress(t)}
	for i, page := range pages {
		d.orchestratorFlags = []string{"--metrics-listen", page}
		if i > 0 {
			d.addresses = append(d.addresses, proctest.FreeAddress(t))
		}
		d.startOrchestrator(i)
	}
	all := d.addresses
	d.addresses = all[1:]
	d.startWorker("worker 1")
	d.addresses = all[:1]
	if _, err := d.client().ListAgents(d.client().ctx(), &pb.ListAgentsRequest{}); err != nil {
		t.Fatal(err)
	}
	d.addresses = all
	c := d.client()
	arrivals := proctest.OpenLines(t, d.in("arrivals"))
	session := c.bypassing("Survey the wood.")
	arrivals.Next()
	d.kill("orchestrator 2")
	d.kill("worker 1")
	d.addresses = all[:1]
	c = d.client()
	until(t, "the attempts of the replica that was killed are taken back", func() bool {
		page := get(t, pages[0])
		return sum(t, page, "coppice_attempt_taken_over_total{") > 0 && sum(t, page, `coppice_attempt_ended_total{outcome="redelivered"`) > 0
	})
	d.write("go", "")
	d.startWorker("worker 2")
	if root := c.wait(session, ""); root.GetResult() != "surveyed 2" {
		t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
	}
}

// get gives the page of metrics that a process serves.
func get(t *testing.T, address string) string {
	t.Helper()
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
