package assembly

import (
	"reflect"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// TestApprovalsByDefault: flags of which nothing is said bound a session as no flags do.
func TestApprovalsByDefault(t *testing.T) {
	t.Parallel()
	said := func(name string) string {
		field, _ := reflect.TypeFor[ApprovalFlags]().FieldByName(name)
		return field.Tag.Get("default")
	}
	timeout, err := time.ParseDuration(said("ApprovalTimeout"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := tree.DefaultLimits(), tree.DefaultLimits()
	ApprovalFlags{Approvals: said("Approvals"), ApprovalTimeout: timeout}.Apply(&got)
	if got.Approval != want.Approval || got.Escalate != want.Escalate {
		t.Errorf("%s and escalate: %t, want %s and %t", got.Approval, got.Escalate, want.Approval, want.Escalate)
	}
}
