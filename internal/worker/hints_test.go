package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
)

// TestHintsGoNear: a hint goes to a slot at the replica that it is from if one waits there,
// and otherwise to any.
func TestHintsGoNear(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from  string
		slots []string // the replicas of those that wait
		got   string
	}{
		"one waits there":      {"b", []string{"a", "b", "a"}, "b"},
		"none waits there":     {"b", []string{"a"}, "a"},
		"it is not said where": {"", []string{"a"}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHintRouter()
				got := make(chan string, 1)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				for _, replica := range test.slots {
					go func() {
						select {
						case <-h.forReplica(replica):
							got <- replica
						case <-h.shared:
							got <- replica
						case <-ctx.Done():
						}
					}()
				}
				synctest.Wait()
				if !h.deliver(ctx, dispatch.Delivery{Hint: dispatch.Hint{From: test.from}}) {
					t.Fatal("the hint was not given")
				}
				if replica := <-got; replica != test.got {
					t.Errorf("the slot at %s has got it, not that at %s", replica, test.got)
				}
			})
		})
	}
}

// TestAHintWaitsForASlot while the worker works, and once it is to stop not for long: slots that
// have no stream may never take one.
func TestAHintWaitsForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{hintRouter: newHintRouter()}
		ctx, stop := context.WithCancel(t.Context())
		given := make(chan bool)
		go func() { given <- w.deliverHint(ctx, t.Context(), dispatch.Delivery{}) }()
		synctest.Wait()
		began := time.Now()
		stop()
		if <-given {
			t.Error("a hint that nobody took was given")
		}
		if took := time.Since(began); took != streamCloseTimeout {
			t.Errorf("it was given up after %s", took)
		}
	})
}
