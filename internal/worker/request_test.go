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
	"github.com/coppice-run/coppice/internal/tree"
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
		"lost": {func(j *journal, _ loop.Pending) { j.line.lose(); j.Park() }, nil},
	} {
		stream := &sentOver{}
		l := (&Worker{}).newLine()
		l.over, l.link = false, &link{stream: stream}
		j := newJournal(l, l.attempt.number)
		j.Append(answer)
		c.then(j, j.Spawn(children))
		if !slices.Equal(stream.kinds, c.want) {
			t.Errorf("%s: %q was sent, not %q", name, stream.kinds, c.want)
		}
	}
}
