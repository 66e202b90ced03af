package wire

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestApprovalNumbers(t *testing.T) {
	t.Parallel()
	for core, contract := range map[tree.ApprovalState]pb.ApprovalState{
		tree.ApprovalOpen: pb.ApprovalState_APPROVAL_STATE_OPEN, tree.ApprovalAllowed: pb.ApprovalState_APPROVAL_STATE_ALLOWED,
		tree.ApprovalDenied: pb.ApprovalState_APPROVAL_STATE_DENIED, tree.ApprovalExpired: pb.ApprovalState_APPROVAL_STATE_EXPIRED,
		tree.ApprovalWithdrawn: pb.ApprovalState_APPROVAL_STATE_WITHDRAWN,
	} {
		if int(core) != int(contract) {
			t.Errorf("approval state %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.CallState]pb.CallState{
		tree.CallAsking: pb.CallState_CALL_STATE_ASKING, tree.CallApproved: pb.CallState_CALL_STATE_APPROVED,
	} {
		if int(core) != int(contract) {
			t.Errorf("call state %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.DenialCause]pb.DenialCause{
		tree.DeniedByPermission: pb.DenialCause_DENIAL_CAUSE_PERMISSION, tree.DeniedUnasked: pb.DenialCause_DENIAL_CAUSE_NOBODY_ASKED,
		tree.DeniedByDecision: pb.DenialCause_DENIAL_CAUSE_DECISION, tree.DeniedByExpiry: pb.DenialCause_DENIAL_CAUSE_EXPIRY,
	} {
		if int(core) != int(contract) {
			t.Errorf("cause of a denial %d is %d in the contract", core, contract)
		}
	}
	for number := range pb.PermissionMode_name {
		if m := policy.Mode(number); number > 0 && pb.PermissionMode_value["PERMISSION_MODE_"+upper(m.String())] != number {
			t.Errorf("mode %d is %s in the core", number, m)
		}
	}
}

func upper(name string) string {
	out := []byte(name)
	for i, c := range out {
		if 'a' <= c && c <= 'z' {
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}

func TestCutArgumentsAreTold(t *testing.T) {
	t.Parallel()
	cut := &tree.Approval{Argument: "a", Cut: 7}
	asked := Event(&tree.Event{Kind: tree.ApprovalRequested{Argument: cut.Argument, Cut: cut.Cut}}).GetApprovalRequested()
	if shown := Approval(tree.SessionID{}, cut); asked.GetArgumentCut() != 7 || shown.GetArgumentCut() != 7 {
		t.Errorf("how much is left out came out as %d and %d", asked.GetArgumentCut(), shown.GetArgumentCut())
	}
}

// TestDenialsAreTold: the event of a denied call has the reason, and no other event has. From a
// worker's denial only what it can know is taken.
func TestDenialsAreTold(t *testing.T) {
	t.Parallel()
	e := &tree.Event{Kind: tree.CallResolved{IsError: true, Denial: tree.Denial{
		Cause: tree.DeniedUnasked, Tool: "bash", Argument: "make it", Rules: []string{"bash"}, Detail: "bash asks", ByDefinition: true,
	}}}
	want := &pb.Denial{
		Cause: pb.DenialCause_DENIAL_CAUSE_NOBODY_ASKED, Tool: "bash", Argument: "make it", Rules: []string{"bash"}, Detail: "bash asks", ByDefinition: true,
	}
	if got := Event(e).GetCallClosed().GetDenial(); !proto.Equal(got, want) {
		t.Errorf("told as %v", got)
	}
	if got := Event(&tree.Event{Kind: tree.CallResolved{IsError: true}}).GetCallClosed(); got.Denial != nil {
		t.Errorf("an error is told as %v", got)
	}
	for want, said := range map[tree.DenialCause]*pb.Denial{tree.DenialUnspecified: nil, tree.DeniedByPermission: want} {
		cmd, err := CommandFrom(&pb.WorkRequest{Kind: &pb.WorkRequest_CallClose{CallClose: &pb.CallClose{Denial: said}}}, tree.From{}, nil)
		if got := cmd.(tree.CloseCall).Denial; err != nil || got.Cause != want || got.Rules != nil || got.Detail != said.GetDetail() {
			t.Errorf("%v is read as %+v, %v", said, got, err)
		}
	}
}

func TestBadPermissionsAndDecisions(t *testing.T) {
	t.Parallel()
	many := make([]string, maxRules+1)
	for i := range many {
		many[i] = "read"
	}
	for p, want := range map[*pb.Permissions]*tree.Error{
		{Deny: many}:                      tree.ErrTooLarge,
		{Ask: []string{"hammer"}}:         tree.ErrBadInput,
		{Deny: []string{"find_tools(x)"}}: tree.ErrBadInput,
	} {
		if _, err := LayerFrom(p); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", p, err, want)
		}
	}
	if _, err := LayerFrom(&pb.Permissions{Mode: 99}); !errors.Is(err, tree.ErrBadInput) {
		t.Errorf("mode 99: %v", err)
	}
	if l, err := LayerFrom(nil); err != nil || !l.Empty() {
		t.Errorf("none: %+v, %v", l, err)
	}
	id := tree.ApprovalID{1}.String()
	for _, req := range []*pb.DecideApprovalRequest{
		{}, {ApprovalId: "x", Decision: 1}, {ApprovalId: id}, {ApprovalId: id, Decision: 9}, {ApprovalId: id, Decision: 1, Scope: 9},
		{ApprovalId: id, Decision: 1, SessionId: "x"},
	} {
		if _, _, err := DecisionFrom(req); !errors.Is(err, tree.ErrBadInput) {
			t.Errorf("%v: %v", req, err)
		}
	}
	if _, st := Status(tree.ErrDenied.With("x")); status.Code(st) != codes.PermissionDenied {
		t.Errorf("denied is %v", st)
	}
}
