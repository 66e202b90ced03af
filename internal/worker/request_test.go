package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// sentOver is a stream that notes what is sent over it, and has answers.
type sentOver struct {
	pb.WorkerService_WorkClient
	sent    []*pb.WorkRequest
	kinds   []string
	answers []*pb.WorkResponse
}

func (s *sentOver) Send(r *pb.WorkRequest) error {
	s.sent, s.kinds = append(s.sent, r), append(s.kinds, fmt.Sprintf("%d %T", r.GetSeq(), r.GetKind()))
	return nil
}

func (s *sentOver) Recv() (*pb.WorkResponse, error) {
	if len(s.answers) == 0 {
		return nil, io.EOF
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next, nil
}

// An answer and the children that it asks for are sent with what comes after them, or when
// one of them is waited for; all in their order.
func TestWhatGoesOnIsKept(t *testing.T) {
	t.Parallel()
	answer, children := &tree.Message{Role: tree.RoleAssistant}, []loop.Child{{Block: 0}}
	sent := []string{"1 *coppicev1.WorkRequest_Append", "2 *coppicev1.WorkRequest_Spawn"}
	for name, c := range map[string]struct {
		then func(j *journal, spawned loop.Pending)
		want []string
	}{
		"nothing yet": {func(*journal, loop.Pending) {}, nil},
		"parked":      {func(j *journal, _ loop.Pending) { j.Park() }, append(slices.Clone(sent), "3 *coppicev1.WorkRequest_Park")},
		"waited for": {func(_ *journal, spawned loop.Pending) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := spawned.Wait(ctx); !errors.Is(err, loop.ErrLost) {
				t.Errorf("it waited until %v", err)
			}
		}, sent},
		"lost": {func(j *journal, _ loop.Pending) { j.conn.loseAttempt(); j.Park() }, nil},
	} {
		stream := &sentOver{}
		l := (&Worker{}).newConn()
		l.attemptOver, l.stream = false, &workStream{rpc: stream}
		j := newJournal(l)
		j.Append(answer)
		c.then(j, j.Spawn(children))
		if !slices.Equal(stream.kinds, c.want) {
			t.Errorf("%s: %q was sent, not %q", name, stream.kinds, c.want)
		}
	}
}

// TestWhatIsShownGoesWithWhatIsSaid: a piece of an answer that is complete by then comes with
// it in one message, without secrets, and once. A replica that does not know that gets it before.
func TestWhatIsShownGoesWithWhatIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		features []string
		want     []string // what is sent
		shown    string   // with the end
	}{
		"joined": {[]string{wire.FeatureJoined}, []string{"1 *coppicev1.WorkRequest_End"}, "so"},
		"apart":  {nil, []string{"0 *coppicev1.WorkRequest_Delta", "1 *coppicev1.WorkRequest_End"}, ""},
	} {
		stream := &sentOver{}
		l, j := lineOf(stream, nil)
		l.stream.welcome = &pb.Welcome{Features: c.features}
		j.Delta(model.Delta{Text: "so"})
		j.End(loop.Ending{})
		if !slices.Equal(stream.kinds, c.want) {
			t.Errorf("%s: %q was sent, not %q", name, stream.kinds, c.want)
		}
		end := stream.sent[len(stream.sent)-1]
		if got := end.GetShows().GetText(); got != c.shown {
			t.Errorf("%s: %q is shown with the end, not %q", name, got, c.shown)
		}
		l.detach(l.stream)
		other := &sentOver{answers: []*pb.WorkResponse{{Kind: &pb.WorkResponse_Reattached{Reattached: &pb.Reattached{}}}}}
		if err := l.attach(&workStream{rpc: other, protocol: wire.Protocol, welcome: &pb.Welcome{Features: append(c.features, wire.FeatureReattach)}}); err != nil {
			t.Fatal(err)
		}
		if again := other.sent[1]; again.GetEnd() == nil || again.GetShows() != nil {
			t.Errorf("%s: over another stream %v is sent", name, again)
		}
	}
}

// TestADrainIsNoAnswer to the question whether the attempt goes on: it may come before that.
func TestADrainIsNoAnswer(t *testing.T) {
	t.Parallel()
	l, j := lineOf(&sentOver{}, nil)
	drains := 0
	l.drain = func() { drains++ }
	l.attempt.onLost = func() { t.Error("the attempt is dropped") }
	l.detach(l.stream)
	next := &sentOver{answers: []*pb.WorkResponse{
		{Kind: &pb.WorkResponse_Drain{Drain: &pb.Drain{}}},
		{Kind: &pb.WorkResponse_Reattached{Reattached: &pb.Reattached{}}},
	}}
	if err := l.attach(&workStream{rpc: next, protocol: wire.Protocol, welcome: &pb.Welcome{Features: []string{wire.FeatureReattach}}}); err != nil {
		t.Fatal(err)
	}
	if !l.isCurrent(j) || drains != 1 {
		t.Errorf("the attempt goes on: %t, drains: %d", l.isCurrent(j), drains)
	}
}

// TestHeldMessagesAreAppendedToApart: the cache still has those that the orchestrator has not kept.
func TestHeldMessagesAreAppendedToApart(t *testing.T) {
	t.Parallel()
	for kept := range 3 {
		cached := []tree.Message{{Ordinal: 1}, {Ordinal: 2}, {Ordinal: 3}}
		assigned := &pb.Assignment{HeldMessages: int32(kept)}
		r := &request{conn: &conn{}, answered: make(chan struct{}), response: &pb.WorkResponse{Kind: &pb.WorkResponse_Assignment{Assignment: assigned}}}
		close(r.answered)
		a, err := r.waitAssignment(t.Context(), cached)
		must(t, err)
		all := append(a.heldMessages, tree.Message{Ordinal: 10})
		if len(all) != kept+1 || cached[kept].Ordinal != kept+1 {
			t.Errorf("%d are kept: message %d of the cached transcript is now %d", kept, kept+1, cached[kept].Ordinal)
		}
	}
}
