package chaos_test

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-run/coppice/internal/chaos"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

func damagesOfClients() []damage {
	return []damage{
		{"session lost", "wide", chaos.Acknowledged, func(f *file) { f.Session = nil }},
		{"spawn lost", "wide", chaos.Acknowledged, func(f *file) {
			f.again(f.kind(chaos.Launched), func(r *chaos.Record) { r.Task, r.Key = "another", "another" })
		}},
		{"message lost", "wide", chaos.Acknowledged, func(f *file) {
			f.Records[f.kind(chaos.MessageSent)].Key = "hello, nobody heard this"
		}},
		{"message heard, and waits", "wide", chaos.KeysHold, func(f *file) {
			r := f.Records[f.kind(chaos.MessageSent)]
			f.Inboxes = map[string][]*pb.InboxEntry{r.Task: {{Text: r.Key}}}
		}},
		{"message heard twice", "wide", chaos.KeysHold, func(f *file) {
			r := f.Records[f.kind(chaos.MessageSent)]
			heard := f.Transcripts[r.Task]
			i := slices.IndexFunc(heard, func(m *pb.Message) bool { return m.GetBlocks()[0].GetText().GetText() == r.Key })
			f.Transcripts[r.Task] = append(heard, heard[i])
		}},
		{"spawn repeated by a repeated key", "wide", chaos.KeysHold, func(f *file) {
			r := f.Records[f.kind(chaos.Launched)]
			i := f.event(func(e *pb.Event) bool { return e.GetStarted().GetDescription() == r.Key })
			twin := proto.CloneOf(f.Events[i])
			twin.TaskId = "twin"
			f.insert(i+1, twin)
		}},
		{"repeated key answered with another task", "wide", chaos.KeysHold, func(f *file) {
			f.again(f.kind(chaos.Launched), func(r *chaos.Record) { r.Task = "twin" })
		}},
		{"branch lost", "waiting", chaos.Acknowledged, func(f *file) { f.drop(f.event(isBranch)) }},
		{"branch repeated by a repeated key", "waiting", chaos.KeysHold, func(f *file) {
			i := f.event(isBranch)
			twin := proto.CloneOf(f.Events[i])
			twin.TaskId = "twin"
			f.insert(i+1, twin)
		}},
		{"branch of another message", "waiting", chaos.Stored, func(f *file) {
			f.Records[f.kind(chaos.Branched)].Ordinal = 99
		}},
		{"selection lost", "waiting", chaos.Acknowledged, func(f *file) { f.Session.CurrentTaskId = "another" }},
		{"claim granted below a cancel", "chain 4", chaos.CancelHolds, func(f *file) {
			r := f.Records[f.kind(chaos.Cancelled)]
			f.insert(len(f.Events), &pb.Event{
				TaskId: r.Task, Run: 1, Time: timestamppb.New(r.At.Add(time.Millisecond)),
				Kind: &pb.Event_Dispatched{Dispatched: &pb.TaskDispatched{Epoch: 99}},
			})
		}},
		{"claim granted after the session was closed", "crowded", chaos.CancelHolds, func(f *file) {
			f.insert(len(f.Events), &pb.Event{
				TaskId: f.Session.GetRootTaskId(), Run: 1, Time: timestamppb.New(f.Records[f.kind(chaos.Abandoned)].At.Add(time.Millisecond)),
				Kind: &pb.Event_Dispatched{Dispatched: &pb.TaskDispatched{Epoch: 99}},
			})
		}},
		{"run starts after the session was closed", "crowded", chaos.CancelHolds, func(f *file) {
			root := f.task(f.Session.GetRootTaskId())
			root.Run++
			at := timestamppb.New(f.Records[f.kind(chaos.Abandoned)].At.Add(time.Second))
			for _, e := range []*pb.Event{
				{Kind: &pb.Event_Started{Started: &pb.TaskStarted{}}},
				{Kind: &pb.Event_Result{Result: &pb.TaskResult{State: root.GetState()}}},
			} {
				e.TaskId, e.Run, e.Time = root.GetId(), root.GetRun(), at
				f.insert(len(f.Events), e)
			}
		}},
		{"close lost", "crowded", chaos.Acknowledged, func(f *file) {
			f.drop(f.event(func(e *pb.Event) bool {
				return e.GetSessionChanged().GetChange() == pb.SessionChange_SESSION_CHANGE_CLOSED
			}))
		}},
		{"run goes on after its cancel was acknowledged", "chain 4", chaos.CancelHolds, func(f *file) {
			i := f.event(func(e *pb.Event) bool {
				return e.GetResult().GetReason() == pb.Reason_REASON_CANCELLED_BY_PARENT
			})
			f.Events[i].Time = timestamppb.New(f.Records[f.kind(chaos.Cancelled)].At.Add(time.Second))
		}},
	}
}
