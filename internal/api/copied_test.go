package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestSpawnTaskIsTakenWhole: each field of the request is in the task that it creates.
func TestSpawnTaskIsTakenWhole(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	session := talk(t, svc, 2)
	api := &taskServer{svc: svc}
	parent, err := api.SpawnTask(t.Context(), &pb.SpawnTaskRequest{SessionId: session.ID.String(), Agent: "general-purpose", Prompt: "look"})
	if err != nil {
		t.Fatal(err)
	}
	req := &pb.SpawnTaskRequest{
		SessionId: session.ID.String(), ParentTaskId: parent.GetTask().GetId(), Agent: "explore", Prompt: "the prompt",
		Description: "a part", Model: "opus", NotifyParent: true, IdempotencyKey: "k", Timeout: durationpb.New(time.Minute),
		Deadline: timestamppb.New(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)), Source: "a2a", MaxIterations: 7,
		Context: []string{"beside it"}, ForkContext: true, Wait: durationpb.New(time.Millisecond), OnComplete: "https://example.com/ended",
	}
	resp, err := api.SpawnTask(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	taken(t, req, map[protoreflect.Name]protoreflect.Name{"parent_task_id": "parent_id"},
		[]protoreflect.Name{"prompt", "context", "notify_parent", "fork_context", "idempotency_key", "wait", "on_complete"}, resp.GetTask())

	again, err := api.SpawnTask(t.Context(), req)
	if err != nil || again.GetTask().GetId() != resp.GetTask().GetId() {
		t.Errorf("idempotency_key: a repeat gives %v, %v", again.GetTask(), err)
	}
	if kind := resp.GetTask().GetBase().GetKind(); kind != pb.BaseKind_BASE_KIND_FORK {
		t.Errorf("fork_context: the task goes on by %s", kind)
	}
	id, err := tree.ParseID[tree.Task](resp.GetTask().GetId())
	if err != nil {
		t.Fatal(err)
	}
	task, err := svc.Task(t.Context(), "", session.ID, id)
	if err != nil {
		t.Fatal(err)
	}
	if task.Caller != task.Parent {
		t.Error("notify_parent: the parent will not be told of the end")
	}
	if task.OnComplete != req.GetOnComplete() {
		t.Errorf("on_complete: %q is called", task.OnComplete)
	}
	if said := firstWords(t, svc, task); !slices.Equal(said, []string{"the prompt", "beside it"}) {
		t.Errorf("prompt and context: the task was told %q", said)
	}
}

// TestCreateSessionIsTakenWhole: each field of the request is in the session that it creates, or in
// the root.
func TestCreateSessionIsTakenWhole(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	api := &sessionServer{svc: svc}
	req := &pb.CreateSessionRequest{
		Agent: "general-purpose", Message: &pb.UserMessage{Text: "the message"}, Title: "a title", Metadata: map[string]string{"a": "b"},
		Model: "opus", IdempotencyKey: "k", Permissions: &pb.Permissions{Deny: []string{"bash"}}, Source: "a2a", NoBackground: true,
		Workspace: "shared", Budget: &pb.Budget{Tokens: 1, CostMicros: 2, ModelCalls: 3}, Wait: durationpb.New(time.Millisecond),
		OnComplete: "https://example.com/ended", OnApproval: "https://example.com/asked",
	}
	resp, err := api.CreateSession(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	taken(t, req, nil, []protoreflect.Name{"message", "permissions", "idempotency_key", "wait", "on_complete", "on_approval"}, resp.GetSession(), resp.GetRoot())

	again, err := api.CreateSession(t.Context(), req)
	if err != nil || again.GetSession().GetId() != resp.GetSession().GetId() {
		t.Errorf("idempotency_key: a repeat gives %v, %v", again.GetSession(), err)
	}
	id, err := parseSessionID(resp.GetSession().GetId())
	if err != nil {
		t.Fatal(err)
	}
	session, root, err := svc.Session(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	if root.OnComplete != req.GetOnComplete() || session.OnApproval != req.GetOnApproval() {
		t.Errorf("on_complete and on_approval: %q and %q are called", root.OnComplete, session.OnApproval)
	}
	if !strings.Contains(string(root.Authority), `"deny":["bash"]`) {
		t.Errorf("permissions: the root has %s", root.Authority)
	}
	if said := firstWords(t, svc, root); !slices.Equal(said, []string{"the message"}) {
		t.Errorf("message: the root was told %q", said)
	}
}

// taken compares each field of a request with the field of the same name, or of the name in names,
// in the messages that came of it. The caller checks the fields in elsewhere.
func taken(t *testing.T, req proto.Message, names map[protoreflect.Name]protoreflect.Name, elsewhere []protoreflect.Name, came ...proto.Message) {
	t.Helper()
	fields := req.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		name := field.Name()
		if !req.ProtoReflect().Has(field) {
			t.Errorf("%s is not tried: give the request of this test one", name)
		}
		if slices.Contains(elsewhere, name) {
			continue
		}
		if other, ok := names[name]; ok {
			name = other
		}
		if !slices.ContainsFunc(came, func(m proto.Message) bool {
			got := m.ProtoReflect().Descriptor().Fields().ByName(name)
			return got != nil && m.ProtoReflect().Get(got).Equal(req.ProtoReflect().Get(field))
		}) {
			t.Errorf("%s is lost: %v came of it", field.Name(), came)
		}
	}
}

// firstWords returns the texts of the first messages of a task.
func firstWords(t *testing.T, svc *orchestrator.Service, task *tree.Task) (said []string) {
	t.Helper()
	messages, err := svc.Store.Transcript(t.Context(), task.Session, task.ID, 0, 1)
	if err != nil || len(messages) != 1 {
		t.Fatalf("the transcript begins with %v (%v)", messages, err)
	}
	for _, block := range messages[0].Blocks {
		said = append(said, block.(tree.Text).Text)
	}
	return said
}
