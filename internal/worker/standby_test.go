package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// standing is a line that waits for a run since the end of its last one.
func standing(t *testing.T) (*conn, *sentOver) {
	t.Helper()
	stream := &sentOver{}
	l, j := lineOf(stream, []tree.Message{{ID: tree.MessageID{1}, Ordinal: 1}})
	end := j.End(loop.Ending{})
	l.answerOldest(answered(&pb.WorkResponse{Kind: &pb.WorkResponse_Ended{Ended: &pb.Ended{}}, StandsBy: true}))
	if reply, err := end.Wait(t.Context()); err != nil || !reply.Ended {
		t.Fatalf("the end was answered with %v, %v", reply, err)
	}
	if rests := l.detachIfIdle(l.stream); !l.isAttemptOver() || rests || len(l.window) > 0 {
		t.Fatalf("the attempt is over: %v, rests: %v, requests under way: %d", l.isAttemptOver(), rests, len(l.window))
	}
	return l, stream
}

// waits waits with a line until it waits no longer.
func waits(ctx context.Context, l *conn) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.waitStandby(ctx)
	}()
	return over
}

// TestARunComesToALineThatStandsBy as if it had come with the end of the last one.
func TestARunComesToALineThatStandsBy(t *testing.T) {
	t.Parallel()
	l, _ := standing(t)
	over := waits(t.Context(), l)
	l.endStandby(given.GetGiven())
	<-over
	if got := l.unanswered[0].req.GetClaim(); got.GetTaskId() != "parent" || got.GetEpoch() != 4 || got.GetNonce() != 7 || got.GetHeld().GetMessages() != 1 {
		t.Errorf("it is claimed by %v", got)
	}
	l.answerOldest(answered(&pb.WorkResponse{Kind: &pb.WorkResponse_Assignment{Assignment: &pb.Assignment{HeldMessages: 1}}}))
	if a, _, err := l.takeGivenRun(t.Context(), func() {}); err != nil || a == nil || len(a.heldMessages) != 1 {
		t.Errorf("taken up was %v, %v", a, err)
	}
	if l.isAttemptOver() || len(l.window) > 0 {
		t.Errorf("the attempt is over: %v, requests under way: %d", l.isAttemptOver(), len(l.window))
	}
}

// TestALineStandsByNoLonger when it is told so, when it is lost, and when it asks to and is
// answered, or has no stream.
func TestALineStandsByNoLonger(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		ends func(*conn)
	}{
		"it is told":           {t.Context(), func(l *conn) { l.endStandby(nil) }},
		"it is lost":           {t.Context(), func(l *conn) { l.loseAttempt() }},
		"it asks":              {ended, func(l *conn) { l.endStandby(nil) }},
		"it asks, all in vain": {ended, func(l *conn) { l.detach(l.stream) }},
	} {
		l, _ := standing(t)
		over := waits(c.ctx, l)
		c.ends(l)
		<-over
		if a, _, err := l.takeGivenRun(t.Context(), func() {}); a != nil || err != nil {
			t.Errorf("%s: taken up was %v, %v", name, a, err)
		}
	}
	l, _ := standing(t)
	l.detach(l.stream)
	<-waits(ended, l)
}

// TestAStreamBreaksUnderALineThatStandsBy: it asks over the next one whether it had been given
// a run, and waits no longer.
func TestAStreamBreaksUnderALineThatStandsBy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given *pb.GivenRun
		want  []string
	}{
		"it was given one":  {given.GetGiven(), []string{"0 *coppicev1.WorkRequest_Reattach", "0 *coppicev1.WorkRequest_Claim"}},
		"it was given none": {nil, []string{"0 *coppicev1.WorkRequest_Reattach"}},
	} {
		l, _ := standing(t)
		over := waits(t.Context(), l)
		l.detach(l.stream)
		stream := &sentOver{answers: []*pb.WorkResponse{{
			Kind: &pb.WorkResponse_Refused{Refused: &pb.Refused{Cause: pb.RefusedCause_REFUSED_CAUSE_STALE}}, Given: c.given,
		}}}
		next := &workStream{rpc: stream, protocol: wire.Protocol, welcome: &pb.Welcome{Features: []string{wire.FeatureReattach}}}
		if err := l.attach(next); err != nil {
			t.Fatal(err)
		}
		<-over
		if !slices.Equal(stream.kinds, c.want) {
			t.Errorf("%s: %q was sent, not %q", name, stream.kinds, c.want)
		}
		if got := stream.sent[0].GetReattach().GetTakesNonce(); got != 7 {
			t.Errorf("%s: it asked for what was given under %d", name, got)
		}
		if l.isAttemptOver() != (c.given == nil) || l.isAttemptOver() != (len(l.unanswered) == 0) || len(l.window) > 0 {
			t.Errorf("%s: the attempt is over: %v, requests under way: %d", name, l.isAttemptOver(), len(l.window))
		}
	}
}

// TestALineOffersToStandBy though nothing has ended on it: what it is given is there as any run,
// also if its stream has broken meanwhile. Of a replica that does not know of it, it does not.
func TestALineOffersToStandBy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		knows, breaks bool
		want          []string
	}{
		"it is given a run":   {true, false, []string{"0 *coppicev1.WorkRequest_StandBy"}},
		"its stream breaks":   {true, true, []string{"0 *coppicev1.WorkRequest_StandBy", "0 *coppicev1.WorkRequest_Reattach", "0 *coppicev1.WorkRequest_Claim"}},
		"a replica of before": {false, false, nil},
	} {
		stream := &sentOver{answers: []*pb.WorkResponse{{
			Kind: &pb.WorkResponse_Refused{Refused: &pb.Refused{Cause: pb.RefusedCause_REFUSED_CAUSE_STALE}}, Given: given.GetGiven(),
		}}}
		l := (&Worker{Config: Config{Now: time.Now}}).newConn()
		welcome := &pb.Welcome{Features: []string{wire.FeatureReattach}}
		if c.knows {
			welcome.Features = append(welcome.Features, wire.FeatureStandby)
		}
		l.stream = &workStream{rpc: stream, protocol: wire.Protocol, welcome: welcome}
		l.offerStandby(&pb.Claim{Nonce: 7, WorkerId: "w"})
		over := waits(t.Context(), l)
		switch {
		case c.breaks:
			l.detach(l.stream)
			if err := l.attach(&workStream{rpc: stream, protocol: wire.Protocol, welcome: welcome}); err != nil {
				t.Fatal(err)
			}
		case c.knows:
			l.endStandby(given.GetGiven())
		}
		<-over
		if !slices.Equal(stream.kinds, c.want) {
			t.Errorf("%s: %q was sent, not %q", name, stream.kinds, c.want)
		}
		if l.isAttemptOver() == c.knows || len(l.window) > 0 {
			t.Errorf("%s: the attempt is over: %v, requests under way: %d", name, l.isAttemptOver(), len(l.window))
		}
		if !c.knows {
			continue
		}
		if got := l.unanswered[0].req.GetClaim(); got.GetTaskId() != "parent" || got.GetEpoch() != 4 || got.GetNonce() != 7 || got.GetWorkerId() != "w" {
			t.Errorf("%s: it is claimed by %v", name, got)
		}
		if c.breaks {
			if asked := stream.sent[1].GetReattach(); asked.GetTakesNonce() != 7 || asked.GetSessionId() != "" {
				t.Errorf("%s: it asked for what was given by %v", name, asked)
			}
		}
	}
}
