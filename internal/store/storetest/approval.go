package storetest

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// approvals: approvals are unchanged after a restart. They are found by their id and in pages,
// those of other tenants are not, and grants are kept.
func approvals(t *testing.T, d Dialect) {
	b := setup(t, d)
	deny, err := policy.ParseRules([]string{"read(**/\\*)"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := create(1)
	cmd.Message, cmd.Source, cmd.Permissions = say("go"), "mcp", policy.Layer{Deny: deny}
	root := b.must(cmd.ID, cmd).(tree.Created).Root
	w := b.claim(cmd.ID, root)
	w.calls("bash", "bash", "bash", "bash")
	for block, rules := range [][]string{{"bash(rm *)", "bash"}, {"bash(rm *)", "write"}, {"write"}, {"bash"}} {
		b.must(cmd.ID, tree.Ask{From: w.from(), Block: block + 1, Argument: "rm \x00x" + strings.Repeat("x", 3000*block), Rules: rules})
	}
	w.parks()
	asked := b.approvalPages(cmd.ID, false, 2)
	eq(t, "the number of approvals", len(asked), 4)
	eq(t, "the argument", asked[0].Argument, "rm \x00x")
	eq(t, "how much of it is left out", asked[0].Cut, 0)
	eq(t, "whether it is known that a long one is not whole", asked[3].Cut > 9000-4000, true)
	eq(t, "when it expires", asked[1].Due, asked[1].AskedAt.Add(tree.DefaultLimits().Approval))
	b.clock.advance(time.Minute)
	b.openFor(4, time.Minute)
	b.restart()
	if again := b.approvalPages(tree.SessionID{}, false, 1); !reflect.DeepEqual(again, asked) {
		t.Errorf("after a restart\n%+v, not\n%+v", again, asked)
	}
	b.must(cmd.ID, tree.DecideApproval{ID: asked[0].ID, Allow: true, ForSession: true, Message: "do \x00it"})
	b.clock.advance(24 * time.Hour)
	b.must(cmd.ID, tree.Expire{Task: root, Ref: asked[2].Ref})
	b.restart()
	eq(t, "how many are open", len(b.approvalPages(cmd.ID, false, 10)), 1)
	b.openFor(1, 24*time.Hour+time.Minute)
	all := b.approvalPages(cmd.ID, true, 10)
	eq(t, "how many there were", len(all), 4)
	eq(t, "the first", all[0].State, tree.ApprovalAllowed)
	eq(t, "what was said", all[0].Message, "do \x00it")
	eq(t, "what nobody decided on", all[2].State, tree.ApprovalExpired)
	eq(t, "what is granted with the first", all[3].State, tree.ApprovalAllowed)
	eq(t, "how far", all[3].ForSession, true)
	approvalByID(t, b, cmd.ID, asked[1].ID)
	s := must[*tree.Session](t)(b.Session(t.Context(), "acme", cmd.ID))
	if !reflect.DeepEqual(s.Grants, asked[0].Rules) || s.Asking != 1 {
		t.Errorf("granted %v, %d open", s.Grants, s.Asking)
	}
	task := must[*tree.Task](t)(b.Task(t.Context(), cmd.ID, root))
	if task.Source != "mcp" || task.Origin != "mcp" || task.Authority.Judge(policy.Call{Tool: "read", Argument: "a/*"}).Decision != policy.Deny {
		t.Errorf("the root is %+v", task)
	}
	eq(t, "open calls", len(b.openCalls(cmd.ID, root)), 3)
	if broken := tree.Diagnose(must[*tree.SessionRows](t)(b.Rows(t.Context(), cmd.ID))); len(broken) > 0 {
		t.Errorf("broken: %+v", broken)
	}
}

// openFor compares the number of open approvals of all tenants, and the age of the oldest.
func (b *bundle) openFor(want int, wantOldest time.Duration) {
	b.t.Helper()
	open, oldest, err := b.OpenApprovals(b.t.Context())
	if err != nil || open != want || oldest != wantOldest {
		b.t.Errorf("%d approvals are open, the oldest for %s, %v; want %d and %s", open, oldest, err, want, wantOldest)
	}
}

// approvalByID: an approval is found by its id, but only for its tenant.
func approvalByID(t *testing.T, b *bundle, session tree.SessionID, id tree.ApprovalID) {
	t.Helper()
	found, err := b.Approval(t.Context(), "acme", id)
	if err != nil || found.Session != session || found.State != tree.ApprovalOpen {
		t.Errorf("by its id: %+v, %v", found, err)
	}
	if _, err := b.Approval(t.Context(), "other", id); !errors.Is(err, tree.ErrNoApproval) {
		t.Errorf("another tenant's: %v", err)
	}
	if others, err := b.Approvals(t.Context(), "other", "", 10); err != nil || len(others.Rows) != 0 {
		t.Errorf("another tenant's: %v, %v", others, err)
	}
}

// approvalPages reads approvals page by page: those of a session, or the open ones of all sessions
// of the tenant if the session is zero.
func (b *bundle) approvalPages(session tree.SessionID, all bool, size int) []store.Approval {
	b.t.Helper()
	var found []store.Approval
	for token := ""; ; {
		var page store.Page[store.Approval]
		var err error
		if session.IsZero() {
			page, err = b.Approvals(b.t.Context(), "acme", token, size)
		} else {
			page, err = b.SessionApprovals(b.t.Context(), session, all, token, size)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		found = append(found, page.Rows...)
		if token = page.Next; token == "" {
			return found
		}
	}
}
