package assembly_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/assembly"
)

// TestAWorkerOutlivesADatabase: the orchestrator comes back at its address with another one. Runs
// of that one are on another dispatch stream, and the worker takes them.
func TestAWorkerOutlivesADatabase(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	first, at := a.orchestrator()
	const done = `steps: [{text: done}]`
	var said logs
	a.worker(at, done, func(w *assembly.Worker) { w.Slots, w.Logger = 2, slog.New(slog.NewTextHandler(&said, nil)) })
	turn := func() {
		t.Helper()
		c := a.client(at)
		if got := c.turn(c.bypassing("hello"), 1); got != "done" {
			t.Errorf("the run said %q", got)
		}
	}
	turn()
	for range 2 {
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		a.database = t.TempDir() + "/coppice.db"
		first, _ = a.orchestratorAt(at)
		turn()
	}
	if n := strings.Count(said.String(), `level=WARN msg="the orchestrator serves another installation than before`); n != 2 {
		t.Errorf("it was said %d times that the installation is another one:\n%s", n, said.String())
	}
}
