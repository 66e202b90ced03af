package wire

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestEnumsHaveTheSameNumbers compares the core's enums that have names with those of the contract.
// The others are covered by the round trips below.
func TestEnumsHaveTheSameNumbers(t *testing.T) {
	t.Parallel()
	same := func(descriptor protoreflect.EnumDescriptor, prefix string, name func(n int) string) {
		values := descriptor.Values()
		for i := 1; i < values.Len(); i++ {
			v := values.Get(i)
			want := strings.TrimPrefix(string(v.Name()), prefix)
			if got := strings.ToUpper(name(int(v.Number()))); got != want {
				t.Errorf("%s is %d in the contract, the core calls that %q", v.Name(), v.Number(), got)
			}
		}
	}
	same(pb.TaskState(0).Descriptor(), "TASK_STATE_", func(n int) string { return tree.State(n).String() })
	same(pb.Reason(0).Descriptor(), "REASON_", func(n int) string { return tree.Reason(n).String() })
	for core, contract := range map[int]protoreflect.EnumNumber{
		int(tree.RoleUser): pb.Role_ROLE_USER.Number(), int(tree.RoleAssistant): pb.Role_ROLE_ASSISTANT.Number(),
		int(tree.RoleTool): pb.Role_ROLE_TOOL.Number(),
	} {
		if core != int(contract) {
			t.Errorf("role %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.Kind]pb.TaskKind{
		tree.KindAgent: pb.TaskKind_TASK_KIND_AGENT, tree.KindShell: pb.TaskKind_TASK_KIND_SHELL,
	} {
		if int(core) != int(contract) {
			t.Errorf("kind %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.CallState]pb.CallState{
		tree.CallOpen: pb.CallState_CALL_STATE_OPEN, tree.CallStarted: pb.CallState_CALL_STATE_STARTED,
		tree.CallWaiting: pb.CallState_CALL_STATE_WAITING, tree.CallClosed: pb.CallState_CALL_STATE_CLOSED,
	} {
		if int(core) != int(contract) {
			t.Errorf("call state %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.StopReason]pb.StopReason{
		tree.StopEndTurn: pb.StopReason_STOP_REASON_END_TURN, tree.StopToolUse: pb.StopReason_STOP_REASON_TOOL_USE,
		tree.StopMaxTokens: pb.StopReason_STOP_REASON_MAX_TOKENS, tree.StopRefusal: pb.StopReason_STOP_REASON_REFUSAL,
	} {
		if int(core) != int(contract) {
			t.Errorf("stop reason %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.ReadyCause]pb.ReadyCause{
		tree.ReadySatisfied:   pb.ReadyCause_READY_CAUSE_SATISFIED,
		tree.ReadyRedelivered: pb.ReadyCause_READY_CAUSE_REDELIVERED,
		tree.ReadyMadeWay:     pb.ReadyCause_READY_CAUSE_MADE_WAY,
	} {
		if int(core) != int(contract) {
			t.Errorf("ready cause %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.BaseKind]pb.BaseKind{
		tree.BaseApart: pb.BaseKind_BASE_KIND_APART, tree.BaseBranch: pb.BaseKind_BASE_KIND_BRANCH,
		tree.BaseFork: pb.BaseKind_BASE_KIND_FORK, tree.BaseCall: pb.BaseKind_BASE_KIND_CALL,
	} {
		if int(core) != int(contract) {
			t.Errorf("base kind %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.Branch]pb.TaskBranch{
		tree.BranchMain: pb.TaskBranch_TASK_BRANCH_MAIN, tree.BranchSubagent: pb.TaskBranch_TASK_BRANCH_SUBAGENT,
		tree.BranchHuman: pb.TaskBranch_TASK_BRANCH_HUMAN,
	} {
		if int(core) != int(contract) {
			t.Errorf("branch %d is %d in the contract", core, contract)
		}
	}
	name := func(text string) string { return strings.ReplaceAll(text, " ", "_") }
	same(pb.HookOutcome(0).Descriptor(), "HOOK_OUTCOME_", func(n int) string { return name(tree.HookOutcome(n).String()) })
	for core, contract := range map[tree.HookEvent]pb.HookEvent{
		tree.SubagentStart: pb.HookEvent_HOOK_EVENT_SUBAGENT_START, tree.SubagentStop: pb.HookEvent_HOOK_EVENT_SUBAGENT_STOP,
	} {
		if int(core) != int(contract) {
			t.Errorf("hook event %d is %d in the contract", core, contract)
		}
	}
	for core, contract := range map[tree.Mode]pb.AgentMode{
		tree.ModePrimary: pb.AgentMode_AGENT_MODE_PRIMARY, tree.ModeSubagent: pb.AgentMode_AGENT_MODE_SUBAGENT,
		tree.ModeBoth: pb.AgentMode_AGENT_MODE_BOTH,
	} {
		if int(core) != int(contract) {
			t.Errorf("mode %d is %d in the contract", core, contract)
		}
	}
}

func whole() tree.Message {
	return tree.Message{
		ID: tree.MessageID{1}, Parent: tree.MessageID{2}, Ordinal: 3, Run: 2, Role: tree.RoleAssistant,
		Blocks: []tree.Block{
			tree.Text{Text: "grüße"}, tree.Thinking{Text: "hm", Signature: "seal"},
			tree.ToolUse{ProviderID: "p", Name: "ls", Input: []byte(`{"path":"."}`)},
			tree.ToolResult{Block: 2, ProviderID: "p", Text: "a\nb", IsError: true},
			tree.Attachment{Kind: tree.AttachmentDocument, MediaType: "m", Name: "n", Data: []byte{1}, URL: "u"},
		},
		News: tree.ChildRun{Task: tree.TaskID{9}, Run: 4}, Model: "m", UpTo: 2, Source: "mcp",
		Usage: tree.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}, Stop: tree.StopToolUse,
		CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
	}
}

func TestMessagesComeBack(t *testing.T) {
	t.Parallel()
	m := whole()
	got, err := MessageFrom(Message(&m))
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v came back as %+v, %v", m, got, err)
	}
	var body tree.Message
	if err := DecodeBody(EncodeBody(&m), &body); err != nil || !reflect.DeepEqual(body.Blocks, m.Blocks) ||
		body.Usage != m.Usage || body.UpTo != m.UpTo || body.Source != m.Source || body.Model != m.Model || body.Stop != m.Stop {
		t.Errorf("the body of %+v came back as %+v, %v", m, body, err)
	}
}

func TestEveryEventHasItsKind(t *testing.T) {
	t.Parallel()
	kinds, seen := new(pb.Event).ProtoReflect().Descriptor().Oneofs().ByName("kind"), map[protoreflect.Name]bool{}
	for _, kind := range []tree.EventKind{
		tree.SessionOpened{Agent: "a"}, tree.Started{Call: tree.CallRef{Message: 2, Block: 1}}, tree.Dispatched{Epoch: 1},
		tree.MessageAppended{Calls: []tree.OpenedCall{{Block: 1, Tool: "ls"}}}, tree.CallResolved{}, tree.Parked{},
		tree.Readied{}, tree.Progressed{}, tree.Result{State: tree.StateFailed}, tree.Queued{},
		tree.BranchOpened{Base: tree.Base{Kind: tree.BaseBranch}}, tree.BranchSelected{}, tree.Imported{},
		tree.HookRan{Name: "h", Outcome: tree.HookFailed}, tree.CallbackEnded{Run: 2}, tree.Backgrounded{},
		tree.InboxTaken{Messages: 1}, tree.InboxCleared{News: []tree.ChildRun{{Run: 1}}}, tree.InboxEmpty{},
		tree.SessionChanged{Title: "t"}, tree.ApprovalRequested{Approval: tree.ApprovalID{1}, Rules: []string{"bash"}, Due: time.Unix(1, 0)},
		tree.ApprovalDecision{State: tree.ApprovalAllowed, ForSession: true}, tree.ApprovalLapsed{},
	} {
		e := &tree.Event{Seq: 7, Task: tree.TaskID{1}, Run: 2, Kind: kind}
		got, err := DecodeEvent(EncodeEvent(e))
		if err != nil || got.GetKind() == nil || got.GetSeq() != 7 || !proto.Equal(got, Event(e)) {
			t.Errorf("%T came back as %v, %v", kind, got, err)
			continue
		}
		field := got.ProtoReflect().WhichOneof(kinds).Name()
		if seen[field] {
			t.Errorf("%T is a %s as another event is", kind, field)
		}
		seen[field] = true
	}
	for fields, i := kinds.Fields(), 0; i < fields.Len(); i++ {
		if name := fields.Get(i).Name(); !seen[name] {
			t.Errorf("no event is a %s here", name)
		}
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	_, err := Status(fmt.Errorf("spawning: %w", tree.ErrTooWide.With("it has %d", 8)))
	details := status.Convert(err).Details()
	if len(details) != 1 {
		t.Fatalf("details: %v", details)
	}
	if info, ok := details[0].(*errdetails.ErrorInfo); !ok || info.GetReason() != "THE_WIDTH_CAP_IS_REACHED" || info.GetDomain() != "coppice.v1" {
		t.Errorf("details: %v", details)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err      error
		want     codes.Code
		internal bool
		shown    string
	}{
		{nil, codes.OK, false, ""},
		{fmt.Errorf("reading: %w", tree.ErrNoTask.With("x")), codes.NotFound, false, "no such task: x"},
		{tree.ErrTooWide, codes.FailedPrecondition, false, "the width cap is reached"},
		{tree.ErrTooLarge, codes.ResourceExhausted, false, "too large"},
		{tree.ErrKeyReused, codes.AlreadyExists, false, ""},
		{tree.ErrStale, codes.Aborted, false, ""},
		{tree.ErrStopping, codes.Unavailable, false, ""},
		{context.Canceled, codes.Canceled, false, ""},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), codes.DeadlineExceeded, false, ""},
		{status.Error(codes.Unimplemented, "no"), codes.Unimplemented, false, "no"},
		{errors.New("the password is 123"), codes.Internal, true, "internal error"},
	} {
		internal, st := Status(test.err)
		if status.Code(st) != test.want || internal != test.internal {
			t.Errorf("%v gives %v, internal %t", test.err, st, internal)
		}
		if test.shown != "" && status.Convert(st).Message() != test.shown {
			t.Errorf("%v shows %q", test.err, status.Convert(st).Message())
		}
	}
}

// FuzzWorkRequest parses arbitrary requests of a worker. It must not panic, and a request that it
// accepts has to be a command.
func FuzzWorkRequest(f *testing.F) {
	m := whole()
	for _, req := range []*pb.WorkRequest{
		{Kind: &pb.WorkRequest_Append{Append: &pb.Append{Message: Message(&m)}}},
		{Kind: &pb.WorkRequest_Spawn{Spawn: &pb.Spawn{Children: []*pb.SpawnChild{{Block: -1, ResumeTaskId: "x"}}}}},
		{Kind: &pb.WorkRequest_End{End: &pb.End{}}},
		{Kind: &pb.WorkRequest_WaitFor{WaitFor: &pb.WaitFor{}}},
		{Kind: &pb.WorkRequest_Compact{Compact: &pb.Compact{UpTo: 1, Message: Message(&m)}}},
		{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{SessionId: "x"}}},
	} {
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	agents := func(*tree.Child) {}
	f.Fuzz(func(t *testing.T, data []byte) {
		var req pb.WorkRequest
		if proto.Unmarshal(data, &req) != nil {
			return
		}
		if cmd, err := CommandFrom(&req, tree.From{}, agents); (cmd == nil) == (err == nil) {
			t.Errorf("%v gives %v, %v", &req, cmd, err)
		}
		if _, _, err := ClaimFrom(req.GetClaim()); err == nil && req.GetClaim() == nil {
			t.Error("no claim is a claim")
		}
	})
}

func TestPiecesHoldEverythingInOrder(t *testing.T) {
	t.Parallel()
	var all []*pb.Message
	for i, size := range []int{10, 300 << 10, 200 << 10, 100 << 10, 10, 10} {
		m := tree.Message{Ordinal: i + 1, Blocks: []tree.Block{tree.Text{Text: strings.Repeat("x", size)}}}
		all = append(all, Message(&m))
	}
	pieces, next := Pieces(all), int32(1)
	for _, piece := range pieces {
		for _, m := range piece {
			if m.GetOrdinal() != next {
				t.Fatalf("message %d comes where %d should", m.GetOrdinal(), next)
			}
			next++
		}
	}
	if len(pieces) != 4 || next != 7 {
		t.Errorf("%d pieces up to message %d", len(pieces), next-1)
	}
	if Pieces(nil) != nil {
		t.Error("nothing is a piece")
	}
}

// TestJoinedResponsesComeApart: responses keep their order, whether they were joined or are too
// many for that.
func TestJoinedResponsesComeApart(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		var sent []*pb.WorkResponse
		for i := range n {
			sent = append(sent, &pb.WorkResponse{Seq: int64(i + 1)})
		}
		joined := JoinResponses(sent)
		if want := map[bool]int{true: min(n, 1), false: n}[n <= maxJoined]; len(joined) != want {
			t.Errorf("%d responses are %d messages, want %d", n, len(joined), want)
		}
		var got []int64
		for _, m := range joined {
			for r := range SplitResponses(m) {
				got = append(got, r.GetSeq())
			}
		}
		if len(got) != n || !slices.IsSorted(got) {
			t.Errorf("of %d responses came %v", n, got)
		}
	}
}
