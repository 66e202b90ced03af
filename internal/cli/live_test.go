package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

func TestLive(t *testing.T) {
	t.Parallel()
	interrupted := 0
	l := &liveView{
		forest: newForest(), theme: newTheme(true, false), interrupt: func() { interrupted++ },
		now: func() time.Time { return zero.Add(3 * time.Second) },
	}
	tell := func(msg tea.Msg) tea.Cmd {
		_, cmd := l.Update(msg)
		return cmd
	}
	tell(tea.WindowSizeMsg{Width: 60, Height: 5})
	for _, s := range parseStory(t, "0s r open root Title\n0s r start - root\n1s r take\n1s r does ls") {
		tell(stepMsg{s.step})
	}
	if got := l.View().Content; got != "" {
		t.Errorf("before a tick: %q", got)
	}
	tell(tickMsg{})
	if got, want := l.View().Content, "⠙ root    2.0s            ls\n1 task · 1 running · 0 tool calls · 0 tokens · 2.0s"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for i := range 9 {
		tell(stepMsg{&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: &pb.Event{
			Seq: int64(10 + i), TaskId: string(rune('a' + i)), Kind: &pb.Event_Started{Started: &pb.TaskStarted{ParentId: "r", Agent: "explore"}},
		}}}})
	}
	tell(lostMsg{errors.New("gone")})
	tell(tea.WindowSizeMsg{Width: 40, Height: 6})
	got := strings.Split(l.View().Content, "\n")
	if len(got) != 5 || !strings.HasPrefix(got[4], "connection lost") || !strings.Contains(got[3], "7 more pending") {
		t.Errorf("after a change of size: %q", got)
	}
	tell(foundMsg{})
	tell(tickMsg{})
	if got := l.View().Content; strings.Contains(got, "connection lost") {
		t.Errorf("after it is found again: %q", got)
	}
	tell(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	if interrupted != 1 {
		t.Errorf("Ctrl-C interrupted %d times", interrupted)
	}
	for _, s := range parseStory(t, "5s r end COMPLETED 0 0") {
		s.step.GetEvent().Seq = 99
		tell(stepMsg{s.step})
	}
	l.height = 5
	tell(tickMsg{})
	if got := strings.Split(l.View().Content, "\n"); len(got) != 5 || got[4] != "" {
		t.Errorf("what has become shorter: %q", got)
	}
	if cmd := tell(overMsg{}); cmd == nil {
		t.Error("it does not end")
	}
	var out strings.Builder
	if err := l.wipe(&out); err != nil || out.String() != "\r\x1b[4A\x1b[J" {
		t.Errorf("wiped with %q, %v", out.String(), err)
	}
}

// broken is a service whose streams break: each of streams says what one brings
// and how it ends.
type broken struct {
	pb.SessionServiceClient
	streams []brokenStream
	after   []int64 // what the streams were asked for
}

type brokenStream struct {
	grpc.ServerStreamingClient[pb.WatchSessionResponse]
	steps []*pb.WatchSessionResponse
	quiet time.Duration // before it breaks
	err   error
	stood bool // its headers come before its first step
}

func (b *broken) WatchSession(_ context.Context, req *pb.WatchSessionRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[pb.WatchSessionResponse], error) {
	b.after = append(b.after, req.GetAfterSeq())
	s := &b.streams[min(len(b.after), len(b.streams))-1]
	return s, nil
}

// Header waits for the headers: they come with the first step, unless the stream stood before.
func (s *brokenStream) Header() (metadata.MD, error) {
	if len(s.steps) > 0 || s.stood {
		return metadata.MD{}, nil
	}
	time.Sleep(s.quiet)
	s.quiet = 0
	return nil, nil
}

func (s *brokenStream) Recv() (*pb.WatchSessionResponse, error) {
	if len(s.steps) == 0 {
		time.Sleep(s.quiet)
		return nil, s.err
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step, nil
}

func eventStep(seq int64) *pb.WatchSessionResponse {
	return &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: &pb.Event{Seq: seq}}}
}

func idleStep() *pb.WatchSessionResponse {
	return &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Idle{Idle: &pb.Idle{LastSeq: 4}}}
}

func blockedStep() *pb.WatchSessionResponse {
	return &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Idle{Idle: &pb.Idle{Cause: pb.IdleCause_IDLE_CAUSE_BLOCKED}}}
}

func TestWatching(t *testing.T) {
	t.Parallel()
	gone := status.Error(codes.Unavailable, "gone")
	nothing := brokenStream{stood: true, quiet: retryTimeout - 1, err: gone}
	for name, c := range map[string]struct {
		streams []brokenStream
		code    codes.Code
		seen    []int64
		after   []int64 // the first few
		lost    bool
	}{
		"goes on where it was": {
			streams: []brokenStream{
				{steps: []*pb.WatchSessionResponse{eventStep(1), eventStep(2)}, err: gone},
				{err: gone}, {err: gone},
				{steps: []*pb.WatchSessionResponse{eventStep(3)}, err: gone},
				{steps: []*pb.WatchSessionResponse{eventStep(4), idleStep()}},
			},
			code: codes.OK, seen: []int64{1, 2, 3, 4}, after: []int64{0, 2, 2, 2, 3}, lost: true,
		},
		"the first has to work": {streams: []brokenStream{{err: gone}}, code: codes.Unavailable, after: []int64{0}},
		"patience ends": {
			streams: []brokenStream{{steps: []*pb.WatchSessionResponse{eventStep(1)}, err: gone}, {err: gone}},
			code:    codes.Unavailable, seen: []int64{1}, after: []int64{0, 1, 1}, lost: true,
		},
		"streams that are quiet for long": {
			streams: []brokenStream{
				{steps: []*pb.WatchSessionResponse{eventStep(1)}, err: gone},
				{quiet: retryTimeout + 1, err: gone}, {err: gone}, {quiet: retryTimeout + 1, err: gone}, {err: gone},
				{steps: []*pb.WatchSessionResponse{eventStep(2), idleStep()}},
			},
			code: codes.OK, seen: []int64{1, 2}, after: []int64{0, 1, 1, 1, 1, 1}, lost: true,
		},
		"gone when it is looked at again": {
			streams: []brokenStream{
				{steps: []*pb.WatchSessionResponse{eventStep(1), blockedStep()}}, {err: gone},
				{steps: []*pb.WatchSessionResponse{eventStep(2), eventStep(3)}}, {err: gone},
				{steps: []*pb.WatchSessionResponse{eventStep(3), idleStep()}},
			},
			code: codes.OK, seen: []int64{1, 2, 3}, after: []int64{0, 1, 1, 2, 2}, lost: true,
		},
		"streams that stand and bring nothing": {
			streams: []brokenStream{
				nothing, {err: gone}, nothing, {err: gone}, nothing,
				{steps: []*pb.WatchSessionResponse{eventStep(1), idleStep()}},
			},
			code: codes.OK, seen: []int64{1}, after: []int64{0, 0, 0, 0, 0, 0}, lost: true,
		},
		"patience ends after a stream that stood": {
			streams: []brokenStream{nothing, {err: gone}},
			code:    codes.Unavailable, after: []int64{0, 0, 0}, lost: true,
		},
		"quiet from the beginning": {
			streams: []brokenStream{{quiet: retryTimeout + 1, err: gone}, {steps: []*pb.WatchSessionResponse{idleStep()}}},
			code:    codes.OK, after: []int64{0, 0}, lost: true,
		},
		"patience ends after a quiet stream": {
			streams: []brokenStream{
				{steps: []*pb.WatchSessionResponse{eventStep(1)}, err: gone},
				{quiet: retryTimeout + 1, err: gone}, {err: gone},
			},
			code: codes.Unavailable, seen: []int64{1}, after: []int64{0, 1, 1, 1}, lost: true,
		},
		"a refusal is final": {
			streams: []brokenStream{
				{steps: []*pb.WatchSessionResponse{eventStep(1)}, err: gone},
				{err: status.Error(codes.NotFound, "no such session")},
			},
			code: codes.NotFound, seen: []int64{1}, after: []int64{0, 1}, lost: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service, lost, found := &broken{streams: c.streams}, false, 0
				w := &watcher{client: service, onLost: func(error) { lost = true }, onConnected: func() { found++ }}
				stand, atMost := 0, 2*retryTimeout
				for i := range c.streams {
					if c.streams[i].stood || len(c.streams[i].steps) > 0 {
						stand++
					}
					atMost += c.streams[i].quiet
				}
				var seen []int64
				begin := time.Now()
				idle, err := w.eachPastBlocks(t.Context(), func(step *pb.WatchSessionResponse) error {
					if e := step.GetEvent(); e != nil {
						seen = append(seen, e.GetSeq())
					}
					return nil
				})
				if status.Code(err) != c.code || (idle != nil) != (err == nil) {
					t.Errorf("each gives %v, %v", idle, err)
				}
				if !slices.Equal(seen, c.seen) || len(service.after) < len(c.after) || !slices.Equal(service.after[:len(c.after)], c.after) || lost != c.lost {
					t.Errorf("seen %v, asked for %v, lost %v", seen, service.after, lost)
				}
				if found != stand {
					t.Errorf("told of %d streams that stand, want %d", found, stand)
				}
				if took := time.Since(begin); took > atMost {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestCallsAreTheActivity: what a message calls is shown as soon as it is there, whatever is reported
// later.
func TestCallsAreTheActivity(t *testing.T) {
	t.Parallel()
	n := &node{activity: "read old"}
	n.addMessage(&pb.MessageAppended{Role: pb.Role_ROLE_ASSISTANT, Activity: "bash make"}, time.Time{})
	if n.activity != "bash make" {
		t.Errorf("it does %q", n.activity)
	}
	n.addMessage(&pb.MessageAppended{Role: pb.Role_ROLE_ASSISTANT}, time.Time{}) // of an earlier release
	if n.activity != "bash make" {
		t.Errorf("it does %q", n.activity)
	}
}
