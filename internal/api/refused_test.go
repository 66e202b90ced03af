package api

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestWhatIsAskedForIsThereAndValid: listing the children of a missing task, reading an agent
// without a name, and invalid durations are refused.
func TestWhatIsAskedForIsThereAndValid(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	sessions, tasks, agents := &sessionServer{svc: svc}, &taskServer{svc: svc}, &agentServer{svc: svc}
	opened, err := sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	session := opened.GetSession().GetId()
	refused := func(_ any, err error) error { return err }
	timeout := func(d *durationpb.Duration) error {
		return refused(tasks.SpawnTask(t.Context(), &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look", Timeout: d}))
	}
	wait := func(d *durationpb.Duration) error {
		return refused(tasks.WaitTask(t.Context(), &pb.WaitTaskRequest{SessionId: session, Timeout: d}))
	}
	for name, c := range map[string]struct {
		err  error
		code tree.Code
		text string
	}{
		"children of no task": {
			refused(tasks.ListTasks(t.Context(), &pb.ListTasksRequest{SessionId: session, ParentTaskId: "0198c0de-0000-7000-8000-000000000000"})),
			tree.CodeNotFound, "no such task",
		},
		"a child of no agent":     {refused(tasks.SpawnTask(t.Context(), &pb.SpawnTaskRequest{SessionId: session, Prompt: "look"})), tree.CodeInvalid, "agent is missing"},
		"no agent":                {refused(agents.GetAgent(t.Context(), &pb.GetAgentRequest{})), tree.CodeInvalid, "name is missing"},
		"no agent to delete":      {refused(agents.DeleteAgent(t.Context(), &pb.DeleteAgentRequest{})), tree.CodeInvalid, "name is missing"},
		"a timeout too long":      {timeout(&durationpb.Duration{Seconds: 1 << 60}), tree.CodeInvalid, "exceeds +10000 years"},
		"a timeout too short":     {timeout(&durationpb.Duration{Nanos: 1000}), tree.CodeInvalid, "at least a millisecond"},
		"a wait with two signs":   {wait(&durationpb.Duration{Seconds: 5, Nanos: -900_000_000}), tree.CodeInvalid, "different signs"},
		"a wait of many nanos":    {wait(&durationpb.Duration{Nanos: 2_000_000_000}), tree.CodeInvalid, "out-of-range nanos"},
		"a wait that is too long": {wait(&durationpb.Duration{Seconds: 601}), tree.CodeInvalid, "must be from 0"},
	} {
		if c.err == nil || tree.CodeOf(c.err) != c.code || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}
