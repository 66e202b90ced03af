package assembly_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

const slowOrNot = `
steps:
  - {when: {last: slow}, delay: 1h, text: late}
  - {text: 'to {{.User}}'}
`

// TestACallWaitsForItsRun: whatever starts a run can be answered with its end.
func TestACallWaitsForItsRun(t *testing.T) {
	t.Parallel()
	c := setup(t, slowOrNot, nil)
	wait := durationpb.New(time.Minute)
	create := &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "one"}, Wait: wait, IdempotencyKey: "k"}
	session := ""
	for range 2 { // the second is a repeat
		opened, err := c.CreateSession(c.ctx(), create)
		if err != nil || !opened.GetEnded() || opened.GetRoot().GetResult() != "to one" || opened.GetRoot().GetId() != opened.GetSession().GetRootTaskId() {
			t.Fatalf("opening a session gave %v, %v", opened, err)
		}
		if s := opened.GetSession(); s.GetState() != pb.TaskState_TASK_STATE_COMPLETED || s.GetTasks().GetPending() != 0 || s.GetModelCalls() != 1 {
			t.Errorf("the session is not as it was after the wait: %v", s)
		}
		if session != "" && opened.GetSession().GetId() != session {
			t.Errorf("the repeat opened %s", opened.GetSession().GetId())
		}
		session = opened.GetSession().GetId()
	}
	send := &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "two"}, Wait: wait, IdempotencyKey: "s"}
	last := &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "slow"}}
	create.Wait = durationpb.New(30 * time.Second) // who asks again has less time left
	for range 2 {
		sent, err := c.SendMessage(c.ctx(), send)
		if err != nil || !sent.GetEnded() || sent.GetTask().GetResult() != "to two" || sent.GetTask().GetRun() != 2 {
			t.Errorf("a message gave %v, %v", sent, err)
		}
		// The second time another run goes on.
		opened, err := c.CreateSession(c.ctx(), create)
		if err != nil || !opened.GetEnded() || opened.GetRoot().GetResult() != "to one" || opened.GetRoot().GetRun() != 1 {
			t.Errorf("after another run the repeat gave %v, %v", opened, err)
		}
		if _, err := c.SendMessage(c.ctx(), last); err != nil { // goes on while the call is repeated
			t.Fatal(err)
		}
	}
	spawned, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "three", Wait: wait})
	if err != nil || !spawned.GetEnded() || spawned.GetTask().GetResult() != "to three" || spawned.GetTask().GetDescription() != "three" {
		t.Errorf("a task gave %v, %v", spawned, err)
	}

	create = &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "slow"}, Wait: durationpb.New(time.Millisecond)}
	slow, err := c.CreateSession(c.ctx(), create)
	if err != nil || slow.GetEnded() || slow.GetRoot().GetRun() != 1 || slow.GetRoot().GetEndTime() != nil {
		t.Errorf("a run that goes on gave %v, %v", slow, err)
	}
	create.Wait = nil
	if at, err := c.CreateSession(c.ctx(), create); err != nil || at.GetEnded() || at.GetRoot() != nil {
		t.Errorf("without a wait there is %v, %v", at, err)
	}
	for _, wrong := range []*pb.CreateSessionRequest{
		{Wait: wait},
		{Message: create.Message, Wait: durationpb.New(-1)},
		{Message: create.Message, Wait: durationpb.New(10*time.Minute + 1)},
	} {
		if _, err := c.CreateSession(c.ctx(), wrong); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

const slowAtFirst = `
steps:
  - {when: {last: '^slow'}, delay: 3s, text: late}
  - {when: {last: '^never'}, delay: 1h, text: later}
  - {text: 'to {{.User}}'}
`

// TestACallWaitsForTheRunThatTakesItsMessageIn, which is not the one under way: that is in its
// last call of the model.
func TestACallWaitsForTheRunThatTakesItsMessageIn(t *testing.T) {
	t.Parallel()
	c := setup(t, slowAtFirst, nil)
	session := c.create("slow").GetId()
	c.events(session, func(e *pb.Event) bool { return e.GetDispatched() != nil })
	send := &pb.SendMessageRequest{
		SessionId: session, Message: &pb.UserMessage{Text: "two"}, Wait: durationpb.New(time.Minute), IdempotencyKey: "s",
	}
	for range 2 { // the second is a repeat
		sent, err := c.SendMessage(c.ctx(), send)
		if err != nil || !sent.GetQueued() || !sent.GetEnded() || sent.GetTask().GetResult() != "to two" || sent.GetTask().GetRun() != 2 {
			t.Errorf("a message gave %v, %v", sent, err)
		}
	}

	// A sub-agent that is cancelled takes nothing in, until somebody resumes it.
	child := c.spawn(&pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "never"}).GetId()
	c.events(session, func(e *pb.Event) bool { return e.GetDispatched() != nil && e.GetTaskId() == child })
	send.TaskId, send.IdempotencyKey = child, ""
	done := make(chan error, 1)
	go func() {
		sent, err := c.SendMessage(c.ctx(), send)
		if err == nil && (!sent.GetQueued() || sent.GetEnded() || sent.GetTask().GetState() != pb.TaskState_TASK_STATE_CANCELLED) {
			err = fmt.Errorf("it gave %v", sent)
		}
		done <- err
	}()
	c.events(session, func(e *pb.Event) bool { return e.GetQueued() != nil && e.GetTaskId() == child })
	c.cancel(session, child)
	if err := <-done; err != nil {
		t.Errorf("a message to a run that was cancelled: %v", err)
	}
}

// TestAStopAnswersWhoWaits: a client whose call has started a run hears of it, though the
// orchestrator stops.
// TestAWaitOfNothingLooksOnce: a call repeated with a wait of 0 says how the run has ended.
func TestAWaitOfNothingLooksOnce(t *testing.T) {
	t.Parallel()
	c := setup(t, slowOrNot, nil)
	opening := &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "quick"}, IdempotencyKey: "once", Wait: durationpb.New(0)}
	opened, err := c.CreateSession(c.ctx(), opening)
	if err != nil || opened.GetRoot() == nil {
		t.Fatalf("the call gave %v, %v", opened, err)
	}
	session := opened.GetSession().GetId()
	want := c.wait(session, "").GetResult()
	if opened, err = c.CreateSession(c.ctx(), opening); err != nil || !opened.GetEnded() || opened.GetRoot().GetResult() != want {
		t.Errorf("the repeated call gave %v, %v", opened, err)
	}
	spawning := &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "quick", IdempotencyKey: "two", Wait: durationpb.New(0)}
	spawned, err := c.SpawnTask(c.ctx(), spawning)
	if err != nil {
		t.Fatal(err)
	}
	want = c.wait(session, spawned.GetTask().GetId()).GetResult()
	if spawned, err = c.SpawnTask(c.ctx(), spawning); err != nil || !spawned.GetEnded() || spawned.GetTask().GetResult() != want {
		t.Errorf("the repeated call gave %v, %v", spawned, err)
	}
	sending := &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "again"}, IdempotencyKey: "three", Wait: durationpb.New(0)}
	if _, err = c.SendMessage(c.ctx(), sending); err != nil {
		t.Fatal(err)
	}
	want = c.wait(session, "").GetResult()
	if sent, err := c.SendMessage(c.ctx(), sending); err != nil || !sent.GetEnded() || sent.GetTask().GetResult() != want {
		t.Errorf("the repeated call gave %v, %v", sent, err)
	}
	if _, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Wait: durationpb.New(0)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a wait without a message: %v", err)
	}
}

// TestAKeyStandsForOneCall: the methods of a session share its keys, and so does the call that has
// opened it.
func TestAKeyStandsForOneCall(t *testing.T) {
	t.Parallel()
	c := setup(t, slowOrNot, nil)
	opened, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Title: "one", IdempotencyKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	session := opened.GetSession().GetId()
	sending := &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "hello"}, IdempotencyKey: "k"}
	if _, err := c.SendMessage(c.ctx(), sending); status.Code(err) != codes.AlreadyExists {
		t.Errorf("with the key that has opened the session: %v", err)
	}
	sending.IdempotencyKey = "l"
	if _, err := c.SendMessage(c.ctx(), sending); err != nil {
		t.Error(err)
	}
	spawning := &pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look", IdempotencyKey: "l"}
	if _, err := c.SpawnTask(c.ctx(), spawning); status.Code(err) != codes.AlreadyExists {
		t.Errorf("with the key of a message: %v", err)
	}
}

func TestAStopAnswersWhoWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, running := restart(t, dir, slowOrNot)
	answered := make(chan *pb.CreateSessionResponse, 1)
	go func() {
		opened, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
			Message: &pb.UserMessage{Text: "slow"}, Title: "waits", Wait: durationpb.New(10 * time.Minute),
		})
		if err != nil {
			t.Error(err)
		}
		answered <- opened
	}()
	until(t, "there is a session", func() bool {
		list, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{})
		return err == nil && len(list.GetSessions()) == 1
	})
	if err := running.Stop(); err != nil {
		t.Fatal(err)
	}
	if opened := <-answered; opened.GetEnded() || opened.GetSession().GetTitle() != "waits" || opened.GetRoot().GetRun() != 1 {
		t.Errorf("the call gave %v", opened)
	}
}
