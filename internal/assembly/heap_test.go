package assembly

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestSlack: whoever has little in memory may let so much garbage gather, and more.
func TestSlack(t *testing.T) {
	heapBallast()
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	if got := goal[0].Value.Uint64(); got < 2*ballastBytes {
		t.Errorf("the heap is collected at %d bytes, want at %d at least", got, 2*ballastBytes)
	}
}
