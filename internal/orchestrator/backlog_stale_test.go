package orchestrator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/orchestrator"
)

// TestHintsOfWhatIsOverGo: hints of runs that are over are removed from the dispatch stream
// although no worker reads it. All are removed if no run waits, and most of them if runs wait.
func TestHintsOfWhatIsOverGo(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"nothing waits": false, "a run waits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				svc := setup(t)
				_, stop := run(t, svc)
				defer stop()
				pass := func() {
					time.Sleep(3 * time.Second)
					synctest.Wait()
				}
				backlog := func() int {
					t.Helper()
					n, err := svc.Bus.StreamLength(t.Context(), svc.Pool)
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				least, most := 0, 0
				if waits {
					openSession(t, svc)
					least, most = 1, orchestrator.StreamAtMost
				}
				for range 30 {
					g := openSession(t, svc)
					if pass(); backlog() == 0 {
						t.Error("a run that waits is not on the stream")
					}
					if _, err := svc.CloseSession(t.Context(), tenant, g.id, ""); err != nil {
						t.Fatal(err)
					}
				}
				if pass(); backlog() < least || backlog() > most {
					t.Errorf("%d hints are on the stream, want %d to %d", backlog(), least, most)
				}
				openSession(t, svc)
				if pass(); backlog() == 0 {
					t.Error("a run that waits is not on the stream")
				}
			})
		})
	}
}
