package wire

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestEventsTogether(t *testing.T) {
	t.Parallel()
	var steps []*Step
	want := &pb.WatchSessionResponse{}
	for seq := range int64(3) {
		e := &tree.Event{Seq: seq + 1, Time: time.Unix(1_800_000_000, 0), Task: tree.TaskID{1}, Run: 1, Kind: tree.Started{Agent: "explore"}}
		steps = append(steps, EventStep(EncodeEvent(e)))
		if seq == 0 {
			want.Step = &pb.WatchSessionResponse_Event{Event: Event(e)}
		} else {
			want.More = append(want.More, Event(e))
		}
		var got pb.WatchSessionResponse
		both := JoinSteps(steps)
		if err := proto.Unmarshal(both.Bytes(), &got); err != nil || !proto.Equal(&got, want) || both.Len() != len(both.Bytes()) {
			t.Errorf("%d together are read as %v, %v", len(steps), &got, err)
		}
	}
}

func TestAStepIsWhatItsResponseWouldBe(t *testing.T) {
	t.Parallel()
	long := &tree.Event{
		Seq: 1 << 40, Time: time.Unix(1_800_000_000, 0), Task: tree.TaskID{1}, Run: 3,
		Kind: tree.Started{Agent: "explore", Description: strings.Repeat("so much ", 4000)},
	}
	for name, c := range map[string]struct {
		step *Step
		want *pb.WatchSessionResponse
	}{
		"an empty event": {EventStep(nil), &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: &pb.Event{}}}},
		"a long event":   {EventStep(EncodeEvent(long)), &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: Event(long)}}},
		"a delta": {
			DeltaStep(&pb.Delta{TaskId: "t", Run: 2, Text: "once"}),
			&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Delta{Delta: &pb.Delta{TaskId: "t", Run: 2, Text: "once"}}},
		},
	} {
		data := c.step.Bytes()
		var got pb.WatchSessionResponse
		if err := proto.Unmarshal(data, &got); err != nil || !proto.Equal(&got, c.want) {
			t.Errorf("%s is read as %v, %v", name, &got, err)
		}
		if n := c.step.Buffers().Len(); n != len(data) {
			t.Errorf("%s has %d bytes, and %d as gRPC takes it", name, len(data), n)
		}
	}
}
