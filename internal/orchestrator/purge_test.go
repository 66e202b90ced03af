package orchestrator_test

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestPurgeOfMany: a sweep removes all sessions that were deleted since the last sweep, however
// many they are, if they are small; but only some if its time is up.
func TestPurgeOfMany(t *testing.T) {
	t.Parallel()
	const sessions = 100
	svc := setup(t)
	ctx := t.Context()
	var deleted []tree.SessionID
	for range sessions {
		session, _, err := svc.CreateSession(ctx, "acme", orchestrator.SessionSpec{Text: "go"}, orchestrator.Idempotency{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := svc.DeleteSession(ctx, "acme", session.ID); err != nil {
			t.Fatal(err)
		}
		deleted = append(deleted, session.ID)
	}
	left := func() (n int) {
		for _, id := range deleted {
			events, err := svc.Store.Events(ctx, id, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			n += len(events)
		}
		return n
	}
	now, passes := time.Now(), time.Hour
	svc.Now = func() time.Time {
		now = now.Add(passes)
		return now
	}
	if err := svc.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	some := left()
	if some == 0 || some == sessions {
		t.Errorf("%d of %d sessions have rows after a step", some, sessions)
	}
	passes = 0
	if err := svc.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	if n := left(); n > 0 {
		t.Errorf("%d of %d sessions have rows after a sweep", n, some)
	}
}
