package assembly_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/otlptest"
	"github.com/coppice-run/coppice/internal/telemetry"
)

// openings is a stream of sessions to open.
type openings struct {
	t      *testing.T
	stream pb.SessionService_CreateSessionsClient
}

func (c *client) openings() openings {
	c.t.Helper()
	stream, err := c.CreateSessions(c.ctx())
	if err != nil {
		c.t.Fatal(err)
	}
	return openings{c.t, stream}
}

// opening is a session that is opened with a message, and waited for.
func opening(text, key string) *pb.CreateSessionRequest {
	return &pb.CreateSessionRequest{
		Message: &pb.UserMessage{Text: text}, Wait: durationpb.New(time.Minute), IdempotencyKey: key,
	}
}

func (o openings) send(number int, session *pb.CreateSessionRequest) {
	o.t.Helper()
	if err := o.stream.Send(&pb.CreateSessionsRequest{Number: int64(number), Session: session}); err != nil {
		o.t.Fatal(err)
	}
}

func (o openings) receive() *pb.CreateSessionsResponse {
	o.t.Helper()
	answer, err := o.stream.Recv()
	if err != nil {
		o.t.Fatal(err)
	}
	return answer
}

// TestManySessionsOverOneStream opens more than may be under way at once, before it looks at
// an answer. All have one, and the stream ends once it has been told that there are no more.
func TestManySessionsOverOneStream(t *testing.T) {
	t.Parallel()
	const many = 700
	c := setup(t, slowOrNot, nil)
	o := c.openings()
	go func() {
		for n := range many {
			if err := o.stream.Send(&pb.CreateSessionsRequest{Number: int64(n), Session: opening(fmt.Sprint("number ", n), "")}); err != nil {
				t.Error(err)
			}
		}
		if err := o.stream.CloseSend(); err != nil {
			t.Error(err)
		}
	}()
	answered := map[int64]bool{}
	for range many {
		answer := o.receive()
		root := answer.GetOpened().GetRoot()
		if want := fmt.Sprint("to number ", answer.GetNumber()); root.GetResult() != want || !answer.GetOpened().GetEnded() {
			t.Errorf("number %d was answered with %v", answer.GetNumber(), answer)
		}
		answered[answer.GetNumber()] = true
	}
	if len(answered) != many {
		t.Errorf("%d numbers were answered, of %d", len(answered), many)
	}
	if answer, err := o.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after all answers came %v, %v", answer, err)
	}
	c.sound()
}

// TestAStreamThatCantBeReadEnds while a session of it is under way, for which nobody waits then.
func TestAStreamThatCantBeReadEnds(t *testing.T) {
	t.Parallel()
	c := setup(t, slowOrNot, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream, err := c.CreateSessions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := openings{t, stream}
	o.send(1, opening("slow", "slow"))
	under, err := c.CreateSession(ctx, &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "slow"}, IdempotencyKey: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	c.events(under.GetSession().GetId(), func(e *pb.Event) bool { return e.GetDispatched() != nil })
	o.send(2, opening(strings.Repeat("long ", 4<<20), ""))
	if answer, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the stream went on with %v, %v", answer, err)
	}
}

// TestARefusedSessionEndsOnlyItself: what is wrong is said as the status of a call would say it,
// what takes long holds up nobody, and keys count as they do for calls.
func TestARefusedSessionEndsOnlyItself(t *testing.T) {
	t.Parallel()
	c := setup(t, slowOrNot, nil)
	once, err := c.CreateSession(c.ctx(), opening("once", "a key"))
	if err != nil {
		t.Fatal(err)
	}
	nobody := opening("anybody?", "")
	nobody.Agent = "nobody"
	_, refused := c.CreateSession(c.ctx(), nobody)

	o := c.openings()
	o.send(1, opening("slow", ""))
	o.send(2, nobody)
	o.send(3, nil)
	o.send(4, opening("once", "a key"))
	o.send(5, opening("twice", "a key"))
	got := map[int64]*pb.CreateSessionsResponse{}
	for range 4 {
		answer := o.receive()
		got[answer.GetNumber()] = answer
	}
	if r := got[2].GetRefused(); r.GetCode() != int32(codes.NotFound) || r.GetMessage() != status.Convert(refused).Message() || r.GetReason() != "NO_SUCH_AGENT" {
		t.Errorf("an agent that is not there: %v, and %v of a call", got[2], refused)
	}
	if r := got[3].GetRefused(); r.GetCode() != int32(codes.InvalidArgument) {
		t.Errorf("a request without a session: %v", got[3])
	}
	if got[4].GetOpened().GetSession().GetId() != once.GetSession().GetId() {
		t.Errorf("a repeat opened %v, after %v", got[4], once)
	}
	if r := got[5].GetRefused(); r.GetCode() != int32(codes.AlreadyExists) {
		t.Errorf("a key for something else: %v", got[5])
	}
	if _, open := got[1]; open {
		t.Errorf("what takes an hour was answered: %v", got[1])
	}
}

// TestAStreamOfSessionsEndsWithItsOrchestrator: what was opened is answered as it stands, and
// the rest is for another one.
func TestAStreamOfSessionsEndsWithItsOrchestrator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, running := restart(t, dir, slowOrNot)
	o := c.openings()
	o.send(1, opening("fast", "fast"))
	o.send(2, opening("slow", "slow"))
	fast := o.receive().GetOpened()
	if fast.GetRoot().GetResult() != "to fast" {
		t.Fatalf("the first answer is %v", fast)
	}
	under, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "slow"}, IdempotencyKey: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	c.events(under.GetSession().GetId(), func(e *pb.Event) bool { return e.GetDispatched() != nil })
	stopped := make(chan error, 1)
	go func() { stopped <- running.Stop() }()
	slow := o.receive()
	if slow.GetNumber() != 2 || slow.GetOpened().GetEnded() || slow.GetOpened().GetSession().GetId() != under.GetSession().GetId() {
		t.Errorf("what was under way was answered with %v", slow)
	}
	if answer, err := o.stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream went on with %v, %v", answer, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}

	c, running = restart(t, dir, `steps: [{text: 'to {{.User}}'}]`)
	again := c.openings()
	again.send(2, opening("slow", "slow"))
	if answer := again.receive().GetOpened(); answer.GetRoot().GetResult() != "to slow" || answer.GetSession().GetId() != under.GetSession().GetId() {
		t.Errorf("what was asked again gave %v, after %v", answer, under)
	}
	c.sound()
	if err := running.Stop(); err != nil {
		t.Error(err)
	}
}

// TestSessionsOfAStreamAreBelowItsSpan: what a client says of its trace counts for all that it
// opens.
func TestSessionsOfAStreamAreBelowItsSpan(t *testing.T) {
	sink := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.Endpoint())
	traced, err := telemetry.Open(t.Context(), telemetry.Config{Service: "test", Instance: "1", Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := traced.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	c := setup(t, slowOrNot, func(d *assembly.Dev) { d.Telemetry = traced })
	stream, err := c.CreateSessions(metadata.AppendToOutgoingContext(c.ctx(), "traceparent", "00-"+clientTrace+"-"+clientSpan+"-01"))
	if err != nil {
		t.Fatal(err)
	}
	o := openings{t, stream}
	for n := range 2 {
		o.send(n, opening("go", ""))
		o.receive()
	}
	spans := sink.Until("the runs of both", func(spans []otlptest.Span) bool { return len(named(spans, "invoke_agent ")) == 2 })
	for _, s := range named(spans, "invoke_agent ") {
		if s.Trace != clientTrace || s.Parent != clientSpan {
			t.Errorf("a run is in the trace %s, below %s", s.Trace, s.Parent)
		}
	}
}
