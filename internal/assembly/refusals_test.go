package assembly_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	limits := tree.DefaultLimits()
	limits.Width, limits.Depth, limits.PartBytes = 2, 1, 1000
	c := setup(t, "steps: [{text: ok}]", func(d *assembly.Dev) { d.Limits = &limits })
	session := c.create("go").GetId()
	other := c.create("go").GetId()
	c.wait(session, "")
	spawn := func(change func(*pb.SpawnTaskRequest)) error {
		req := &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look"}
		change(req)
		_, err := c.SpawnTask(c.ctx(), req)
		return err
	}
	child, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look"})
	if err != nil {
		t.Fatal(err)
	}
	said := c.transcript(session, "")[0].GetId()
	const blank = " \n\t\u2003"
	unknown := "0198c0de-0000-7000-8000-000000000000"
	as := func(change func(*pb.SpawnTaskRequest)) func() error {
		return func() error { return spawn(change) }
	}
	for _, test := range []struct {
		name string
		call func() error
		want codes.Code
	}{
		{"unknown agent", as(func(r *pb.SpawnTaskRequest) { r.Agent = "nobody" }), codes.NotFound},
		{"unknown session", as(func(r *pb.SpawnTaskRequest) { r.SessionId = unknown }), codes.NotFound},
		{"unknown parent", as(func(r *pb.SpawnTaskRequest) { r.ParentTaskId = unknown }), codes.NotFound},
		{"foreign parent", as(func(r *pb.SpawnTaskRequest) { r.ParentTaskId = c.root(other) }), codes.NotFound},
		{"no id", as(func(r *pb.SpawnTaskRequest) { r.SessionId = "x" }), codes.InvalidArgument},
		{"no prompt", as(func(r *pb.SpawnTaskRequest) { r.Prompt = "" }), codes.InvalidArgument},
		{"a blank prompt", as(func(r *pb.SpawnTaskRequest) { r.Prompt = blank }), codes.InvalidArgument},
		{"too large", as(func(r *pb.SpawnTaskRequest) { r.Prompt = strings.Repeat("x", 1001) }), codes.ResourceExhausted},
		{"an agent that may be both", as(func(r *pb.SpawnTaskRequest) { r.Agent = "general-purpose" }), codes.OK},
		{"too deep", as(func(r *pb.SpawnTaskRequest) { r.ParentTaskId = child.GetTask().GetId() }), codes.FailedPrecondition},
		{"too wide", as(func(*pb.SpawnTaskRequest) {}), codes.FailedPrecondition},
		{"a root that is none", func() error {
			_, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Agent: "explore"})
			return err
		}, codes.InvalidArgument},
		{"an empty message", func() error {
			_, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session})
			return err
		}, codes.InvalidArgument},
		{"a blank message", func() error {
			_, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: blank}})
			return err
		}, codes.InvalidArgument},
		{"a blank first message", func() error {
			_, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: blank}})
			return err
		}, codes.InvalidArgument},
		{"a blank message of a branch", func() error {
			_, err := c.CreateBranch(c.ctx(), &pb.CreateBranchRequest{SessionId: session, MessageId: said, Text: blank})
			return err
		}, codes.InvalidArgument},
		{"beyond the end", func() error {
			stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, AfterSeq: 9999})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		}, codes.OutOfRange},
		{"a page token of others", func() error {
			_, err := c.ListTasks(c.ctx(), &pb.ListTasksRequest{SessionId: session, PageToken: "%%%"})
			return err
		}, codes.InvalidArgument},
		{"unknown definition", func() error {
			_, err := c.GetAgent(c.ctx(), &pb.GetAgentRequest{Name: "nobody"})
			return err
		}, codes.NotFound},
	} {
		if err := test.call(); status.Code(err) != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	if all := c.tasks(session); len(all) != 3 {
		t.Errorf("%d tasks after all refusals, want 3", len(all))
	}
}

// TestWhatARequestLacksIsNamed: the field that is wrong, or not there.
func TestWhatARequestLacksIsNamed(t *testing.T) {
	t.Parallel()
	c := setup(t, "steps: [{text: ok}]", nil)
	session := c.create("go").GetId()
	watch := func(req *pb.WatchSessionRequest) error {
		stream, err := c.WatchSession(c.ctx(), req)
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	unary := func(_ any, err error) error { return err }
	for want, err := range map[string]error{
		"session_id is missing":         unary(c.WaitTask(c.ctx(), &pb.WaitTaskRequest{})),
		"task_id is missing":            unary(c.GetTask(c.ctx(), &pb.GetTaskRequest{SessionId: session})),
		"session_id: text of 1 bytes":   unary(c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: "x"})),
		"title and budget are both":     unary(c.UpdateSession(c.ctx(), &pb.UpdateSessionRequest{SessionId: session})),
		"after_seq is -1, must be 0 or": watch(&pb.WatchSessionRequest{SessionId: session, AfterSeq: -1}),
	} {
		if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestWhatIsMissingIsNamed: the id that a call asks for.
func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	c := setup(t, "steps: [{text: ok}]", func(*assembly.Dev) {})
	session, unknown := c.create("go").GetId(), "0198c0de-0000-7000-8000-000000000000"
	for want, err := range map[string]error{
		"no such session: " + unknown: func() error {
			_, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: unknown})
			return err
		}(),
		"no such task: " + unknown: func() error {
			_, err := c.GetTask(c.ctx(), &pb.GetTaskRequest{SessionId: session, TaskId: unknown})
			return err
		}(),
	} {
		if st := status.Convert(err); st.Code() != codes.NotFound || st.Message() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAStaleTokenIsRefused(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{delay: 2s, text: slow}]`, func(d *assembly.Dev) { d.Slots = 1 })
	session := c.create("go")
	task := ""
	watch, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	for task == "" {
		resp, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetEvent().GetDispatched() != nil {
			task = resp.GetEvent().GetTaskId()
		}
	}
	stream, err := c.work.Work(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetWelcome() == nil {
		t.Fatalf("the stream starts with %v, %v", first, err)
	}
	claim := func(epoch int64) *pb.WorkResponse {
		t.Helper()
		if err := stream.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{
			SessionId: session.GetId(), TaskId: task, Epoch: epoch, Nonce: 1, WorkerId: "by hand", Protocol: 1,
		}}}); err != nil {
			t.Fatal(err)
		}
		for {
			resp, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if resp.GetHeartbeat() == nil {
				return resp
			}
		}
	}
	for _, epoch := range []int64{0, 1, 2} {
		if resp := claim(epoch); resp.GetRefused().GetCause() != pb.RefusedCause_REFUSED_CAUSE_STALE {
			t.Errorf("a claim of epoch %d while the run is with a worker: %v", epoch, resp)
		}
	}
	if root := c.wait(session.GetId(), ""); root.GetResult() != "slow" || root.GetEpoch() != 1 {
		t.Errorf("the root ended with %q at epoch %d", root.GetResult(), root.GetEpoch())
	}
}
