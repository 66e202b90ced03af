package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// Task converts a task, without the text of its result.
func Task(t *tree.Task) *pb.Task {
	out := &pb.Task{
		SessionId:    id(t.Session),
		Id:           id(t.ID),
		ParentId:     id(t.Parent),
		Kind:         pb.TaskKind(t.Kind),
		Branch:       pb.TaskBranch(t.Branch),
		Depth:        int32(t.Depth),
		Agent:        t.Agent,
		AgentVersion: t.AgentVersion,
		Model:        t.Model,
		Description:  t.Description,
		Run:          int32(t.Run),
		State:        pb.TaskState(t.State),
		Reason:       pb.Reason(t.Reason),
		Detail:       t.Detail,
		Usage:        Usage(t.Usage),
		ToolUses:     int32(t.ToolUses),
		Activity:     t.Activity,
		Background:   t.Background,
		Children:     int32(t.Children),
		Iterations:   int32(t.Iterations),
		Epoch:        t.Epoch,
		WorkerId:     t.Worker,
		CreateTime:   timestamp(t.CreatedAt),
		StartTime:    timestamp(t.StartedAt),
		EndTime:      timestamp(t.EndedAt),
		Deadline:     timestamp(t.Deadline),
		Base:         Base(t.Base),

		CompactedOrdinal: int32(t.Compacted),
		ModelProvider:    t.Pin.Provider,
		ModelName:        t.Pin.Name,
		Source:           t.Source,
		OpenApprovals:    int32(t.Asking),

		TotalIterations:  int32(t.AllIterations),
		MaxIterations:    int32(t.MaxIterations),
		RecentActivities: t.RecentActivities(),
		Inbox:            int32(t.Inbox),
		ReportTime:       timestamp(t.LastReport()),
	}
	if t.State == tree.StateWaiting {
		out.Wait = wait(t.Wait)
	}
	if t.Timeout > 0 {
		out.Timeout = durationpb.New(t.Timeout)
	}
	return out
}

// Session converts a session and its root task.
func Session(s *tree.Session, root *tree.Task) *pb.Session {
	return &pb.Session{
		Id:         id(s.ID),
		Title:      s.Title,
		Agent:      s.Agent,
		RootTaskId: id(s.Root),
		State:      pb.TaskState(root.State),
		LastSeq:    s.NextSeq - 1,
		Tasks: &pb.TaskCounts{
			Total: int32(s.Total), Pending: int32(s.Pending),
			Running: int32(s.Running + s.Shells), Waiting: int32(s.Waiting),
		},
		Usage:      Usage(s.Usage),
		CreateTime: timestamp(s.CreatedAt),
		UpdateTime: timestamp(s.UpdatedAt),
		Metadata:   s.Metadata,

		OpenApprovals: int32(s.Asking),
		DeniedCalls:   int32(s.DeniedCalls),
		CurrentTaskId: id(s.CurrentTask()),
		CloseTime:     timestamp(s.ClosedAt),
		NoBackground:  s.Limits.NoBackground,
		Workspace:     s.Workspace,
		Budget:        Budget(s.Budget),
		Reserved:      Budget(s.Reserved()),
		ModelCalls:    s.ModelCalls,
	}
}

func wait(w tree.ParkedOn) *pb.Wait {
	return &pb.Wait{Total: int32(w.Total), Met: int32(w.Met), Failed: int32(w.Failed)}
}
