package orchestrator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// TestAnotherTenantReadsNothing: whatever a client reads of a session does not exist for another
// tenant, also if the caller has checked nothing before.
func TestAnotherTenantReadsNothing(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	ctx := t.Context()
	session, root, err := svc.CreateSession(ctx, "acme", orchestrator.SessionSpec{Text: "go"}, orchestrator.Idempotency{})
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(tenant string) error{
		"Session": func(tenant string) error { return third(svc.Session(ctx, tenant, session.ID)) },
		"Tree": func(tenant string) error {
			_, _, _, err := svc.Tree(ctx, tenant, session.ID)
			return err
		},
		"SessionRows": func(tenant string) error { return second(svc.SessionRows(ctx, tenant, session.ID)) },
		"Task":        func(tenant string) error { return second(svc.Task(ctx, tenant, session.ID, root.ID)) },
		"the root":    func(tenant string) error { return second(svc.Task(ctx, tenant, session.ID, tree.TaskID{})) },
		"Tasks":       func(tenant string) error { return third(svc.Tasks(ctx, tenant, session.ID, root.ID, "", 1)) },
		"all Tasks":   func(tenant string) error { return third(svc.Tasks(ctx, tenant, session.ID, tree.TaskID{}, "", 1)) },
		"Transcript":  func(tenant string) error { return second(svc.Transcript(ctx, tenant, root, 0, 1)) },
		"Inherited":   func(tenant string) error { return second(svc.Inherited(ctx, tenant, root)) },
		"Inbox":       func(tenant string) error { return third(svc.Inbox(ctx, tenant, session.ID, root.ID)) },
		"Approvals":   func(tenant string) error { return second(svc.Approvals(ctx, tenant, session.ID, true, "", 1)) },
		"WaitTask": func(tenant string) error {
			return second(svc.WaitTask(ctx, tenant, session.ID, tree.ChildRun{Task: root.ID}, time.Microsecond))
		},
		"WatchSession": func(tenant string) error {
			seen := errors.New("seen")
			if _, err := svc.WatchSession(ctx, tenant, session.ID, orchestrator.Watch{}, func(*wire.Step) error { return seen }); !errors.Is(err, seen) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := read("acme"); err != nil {
				t.Errorf("its own tenant gets %v", err)
			}
			if err := read("other"); !errors.Is(err, tree.ErrNoSession) {
				t.Errorf("another tenant gets %v", err)
			}
		})
	}
	for tenant, want := range map[string]int{"acme": 1, "other": 0} {
		if page, err := svc.Sessions(ctx, tenant, "", 10, nil); err != nil || len(page.Rows) != want {
			t.Errorf("%s has %d sessions (%v)", tenant, len(page.Rows), err)
		}
	}
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }
