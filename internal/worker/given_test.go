package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// lineOf puts an attempt on a line, which offers its slot.
func lineOf(stream *sentOver, begins []tree.Message) (*conn, *journal) {
	l := (&Worker{Config: Config{Now: time.Now}}).newConn()
	l.stream = &workStream{rpc: stream, protocol: wire.Protocol}
	l.beginAttempt(&pb.Claim{SessionId: "s", TaskId: "child", Epoch: 1, Nonce: 1, WorkerId: "w"}, nil, nil)
	j := newJournal(l)
	j.offerSlot = func() (*pb.Takes, []tree.Message) {
		return &pb.Takes{Nonce: 7, HeldTaskId: "parent", Held: describeHeld(begins)}, begins
	}
	return l, j
}

func answered(resp *pb.WorkResponse) func(*request) bool {
	return func(r *request) bool { r.response = resp; return true }
}

var given = &pb.WorkResponse{
	Kind:  &pb.WorkResponse_Ended{Ended: &pb.Ended{}},
	Given: &pb.GivenRun{SessionId: "s", TaskId: "parent", Epoch: 4},
}

// TestGivenRun: a run that comes with the end of the last one is on the line as if it had
// been claimed: it gets its assignment, its requests are counted from 1, and over another
// stream its claim is sent first.
func TestGivenRun(t *testing.T) {
	t.Parallel()
	begins := []tree.Message{{ID: tree.MessageID{1}, Ordinal: 1}}
	for name, c := range map[string]struct {
		breaks bool
		want   []string // what is sent
	}{
		"":                  {want: []string{"1 *coppicev1.WorkRequest_End", "1 *coppicev1.WorkRequest_Park"}},
		"the stream breaks": {true, []string{"1 *coppicev1.WorkRequest_End", "0 *coppicev1.WorkRequest_Claim", "1 *coppicev1.WorkRequest_Park"}},
	} {
		stream := &sentOver{}
		l, j := lineOf(stream, begins)
		end := j.End(loop.Ending{})
		l.answerOldest(answered(given))
		if reply, err := end.Wait(t.Context()); err != nil || !reply.Ended {
			t.Errorf("%s: the end was answered with %v, %v", name, reply, err)
		}
		if c.breaks {
			l.detach(l.stream)
			if err := l.attach(&workStream{rpc: stream, protocol: wire.Protocol}); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.unanswered[0].req.GetClaim(); got.GetTaskId() != "parent" || got.GetEpoch() != 4 || got.GetNonce() != 7 || got.GetWorkerId() != "w" || got.GetHeld().GetMessages() != 1 {
			t.Errorf("%s: it is claimed by %v", name, got)
		}
		l.answerOldest(answered(&pb.WorkResponse{Kind: &pb.WorkResponse_Assignment{Assignment: &pb.Assignment{HeldMessages: 1}}}))
		a, next, err := l.takeGivenRun(t.Context(), func() {})
		if err != nil || len(a.heldMessages) != 1 {
			t.Fatalf("%s: taken up was %v, %v", name, a, err)
		}
		next.Park()
		if !slices.Equal(stream.kinds, c.want) {
			t.Errorf("%s: %q was sent, not %q", name, stream.kinds, c.want)
		}
		if l.isAttemptOver() || len(l.window) != 1 {
			t.Errorf("%s: the attempt is over: %v, requests under way: %d", name, l.isAttemptOver(), len(l.window))
		}
	}
}

// TestGivenRunIsAskedFor: who has not heard of the end of a run asks over the next stream, by
// the number of the offer, and claims what the slot was given.
func TestGivenRunIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given *pb.GivenRun
		want  []string // what is sent
	}{
		"it has got one":  {given.GetGiven(), []string{"1 *coppicev1.WorkRequest_End", "0 *coppicev1.WorkRequest_Reattach", "0 *coppicev1.WorkRequest_Claim"}},
		"it has got none": {nil, []string{"1 *coppicev1.WorkRequest_End", "0 *coppicev1.WorkRequest_Reattach"}},
	} {
		stream := &sentOver{answers: []*pb.WorkResponse{{
			Kind: &pb.WorkResponse_Refused{Refused: &pb.Refused{Cause: pb.RefusedCause_REFUSED_CAUSE_STALE}}, Given: c.given,
		}}}
		l, j := lineOf(stream, []tree.Message{{ID: tree.MessageID{1}, Ordinal: 1}})
		end := j.End(loop.Ending{})
		l.detach(l.stream)
		next := &workStream{rpc: stream, protocol: wire.Protocol, welcome: &pb.Welcome{Features: []string{wire.FeatureReattach}}}
		if err := l.attach(next); err != nil {
			t.Fatal(err)
		}
		if _, err := end.Wait(t.Context()); !errors.Is(err, loop.ErrLost) {
			t.Errorf("%s: the end was answered with %v", name, err)
		}
		if !slices.Equal(stream.kinds, c.want) {
			t.Errorf("%s: %q was sent, not %q", name, stream.kinds, c.want)
		}
		if got := stream.sent[1].GetReattach().GetTakesNonce(); got != 7 {
			t.Errorf("%s: it asked for what was given under %d", name, got)
		}
		if l.isCurrent(j) {
			t.Errorf("%s: the attempt that is over is on the line", name)
		}
		if l.isAttemptOver() != (c.given == nil) || l.isAttemptOver() != (len(l.unanswered) == 0) || len(l.window) > 0 {
			t.Errorf("%s: the attempt is over: %v, requests under way: %d", name, l.isAttemptOver(), len(l.window))
		}
		if c.given == nil {
			continue
		}
		if got := stream.sent[2].GetClaim(); got.GetTaskId() != "parent" || got.GetEpoch() != 4 || got.GetNonce() != 7 || got.GetHeld().GetMessages() != 1 {
			t.Errorf("%s: it is claimed by %v", name, got)
		}
	}
}

// TestGivenRunIsLost: a run that was given is lost as any other, before it is taken up or
// after; and nothing is taken up where nothing was given.
func TestGivenRunIsLost(t *testing.T) {
	t.Parallel()
	l, j := lineOf(&sentOver{}, nil)
	if a, _, err := l.takeGivenRun(t.Context(), func() {}); a != nil || err != nil {
		t.Errorf("taken up was %v, %v", a, err)
	}
	j.End(loop.Ending{})
	l.answerOldest(answered(given))
	l.loseAttempt()
	if _, _, err := l.takeGivenRun(t.Context(), func() {}); !errors.Is(err, loop.ErrLost) {
		t.Errorf("taking it up ended with %v", err)
	}
	if !l.isAttemptOver() || len(l.window) > 0 {
		t.Errorf("the attempt is over: %v, requests under way: %d", l.isAttemptOver(), len(l.window))
	}
}

// TestARunThatIsLostBeforeItIsTakenUp is not carried.
func TestARunThatIsLostBeforeItIsTakenUp(t *testing.T) {
	t.Parallel()
	l, j := lineOf(&sentOver{}, nil)
	end := j.End(loop.Ending{})
	l.answerOldest(answered(given))
	l.answerOldest(answered(&pb.WorkResponse{Kind: &pb.WorkResponse_Assignment{Assignment: &pb.Assignment{}}}))
	l.loseAttempt()
	if _, err := end.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, _, err := l.takeGivenRun(ctx, cancel); err == nil && ctx.Err() == nil {
		t.Error("a run that is lost was taken up, and goes on")
	}
}
