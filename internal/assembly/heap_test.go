package assembly

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestBallast: whoever has little in memory may let as much garbage gather as it has ballast, and
// more.
func TestBallast(t *testing.T) {
	goal := func() uint64 {
		runtime.GC()
		goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(goal)
		return goal[0].Value.Uint64()
	}
	orchestratorBallast()
	if got := goal(); got < 2*ballastBytes {
		t.Errorf("the heap of an orchestrator is collected at %d bytes, want at %d at least", got, 2*ballastBytes)
	}
	workerBallast()
	if got := goal(); got < 4*ballastBytes {
		t.Errorf("the heap of both is collected at %d bytes, want at %d at least", got, 4*ballastBytes)
	}
}
