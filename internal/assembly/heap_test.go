package assembly

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestBallast: whoever has little in memory may let as much garbage gather as it has ballast, and
// more.
func TestBallast(t *testing.T) {
	collectedAt := func() uint64 {
		runtime.GC()
		goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(goal)
		return goal[0].Value.Uint64()
	}
	orchestratorBallast()
	if got := collectedAt(); got < 2*orchestratorBallastBytes {
		t.Errorf("the heap of an orchestrator is collected at %d bytes, want at %d at least", got, 2*orchestratorBallastBytes)
	}
	workerBallast()
	if got, want := collectedAt(), uint64(2*(orchestratorBallastBytes+workerBallastBytes)); got < want {
		t.Errorf("the heap of both is collected at %d bytes, want at %d at least", got, want)
	}
}
