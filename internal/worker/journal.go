package worker

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// journal records one attempt over a conn. Once another attempt has begun on the conn, requests of
// this journal fail.
type journal struct {
	conn          *conn
	attemptNumber int
	launch        func(*backgroundCommand) // runs a command that has become a task
	// offerSlot offers the slot to another run, with what the worker holds of its transcript; nil:
	// the slot is not offered.
	offerSlot func() (*pb.Takes, []tree.Message)
	deltas    deltas // of the answer in progress
}

// newJournal returns a journal of the current attempt. The caller holds mu of the conn.
func newJournal(c *conn) *journal {
	j := &journal{conn: c, attemptNumber: c.attempt.number}
	j.deltas.send = j.delta
	return j
}

var _ loop.Journal = (*journal)(nil)

// Wait returns the answer as the loop expects it.
func (r *request) Wait(ctx context.Context) (loop.Reply, error) {
	if err := r.wait(ctx); err != nil {
		return loop.Reply{}, err
	}
	switch k := r.response.GetKind().(type) {
	case *pb.WorkResponse_Ack:
		reply := loop.Reply{Ordinal: int(k.Ack.GetOrdinal()), Approved: k.Ack.GetApproved()}
		if b := k.Ack.GetBoundary(); b != nil {
			var err error
			if reply.Boundary, err = boundaryFrom(b); err != nil {
				return loop.Reply{}, fmt.Errorf("reading a boundary: %w", err)
			}
		}
		return reply, nil
	case *pb.WorkResponse_Parked:
		return loop.Reply{Parked: true}, nil
	case *pb.WorkResponse_Ended:
		return loop.Reply{Ended: true}, nil
	}
	return loop.Reply{}, fmt.Errorf("unexpected answer %T to a request", r.response.GetKind())
}

func boundaryFrom(b *pb.Boundary) (*loop.Boundary, error) {
	// Without results the worker knows the tool message, and it is the last one if calls were open.
	out := &loop.Boundary{Ordinal: int(b.GetOrdinal()), Source: b.GetSource(), BudgetSpent: b.GetBudgetSpent(), BudgetShort: b.GetBudgetShort()}
	if b.GetResults() != nil {
		m, err := wire.MessageFrom(b.GetResults())
		if err != nil {
			return nil, err
		}
		out.ID, out.Ordinal = m.ID, m.Ordinal
		for _, block := range m.Blocks {
			if result, ok := block.(tree.ToolResult); ok {
				out.Results = append(out.Results, result)
			}
		}
	}
	var err error
	out.News, err = wire.MessagesFrom(b.GetMessages())
	return out, err
}

// Append implements [loop.Journal].
func (j *journal) Append(m *tree.Message) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Append{Append: &pb.Append{Message: wire.Message(m)}}})
}

// StartCall implements [loop.Journal].
func (j *journal) StartCall(block int) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_CallStarted{
		CallStarted: &pb.CallStarted{Block: int32(block)},
	}})
}

// CloseCall implements [loop.Journal].
func (j *journal) CloseCall(r tree.ToolResult) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_CallClose{
		CallClose: &pb.CallClose{Result: wire.ToolResult(r)},
	}})
}

// DenyCall implements [loop.Journal].
func (j *journal) DenyCall(r tree.ToolResult, argument, why string) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_CallClose{CallClose: &pb.CallClose{
		Result: wire.ToolResult(r),
		Denial: &pb.Denial{Cause: pb.DenialCause_DENIAL_CAUSE_PERMISSION, Argument: argument, Detail: why},
	}}})
}

// Spawn implements [loop.Journal].
func (j *journal) Spawn(children []loop.Child) loop.Pending {
	spawn := &pb.Spawn{}
	for _, c := range children {
		child := &pb.SpawnChild{
			Block: int32(c.Block), Agent: c.Agent, Description: c.Description, Prompt: c.Prompt,
			Model: c.Model, Background: c.Background, ForkContext: c.Fork,
			Context: c.Context, MaxIterations: int32(c.MaxIterations),
		}
		wire.SetJoin(child, c.Join)
		if c.Timeout > 0 {
			child.Timeout = durationpb.New(c.Timeout)
		}
		if c.JoinTimeout > 0 {
			child.JoinTimeout = durationpb.New(c.JoinTimeout)
		}
		if !c.Resume.IsZero() {
			child.ResumeTaskId = c.Resume.String()
		}
		if c.Command != nil {
			setShell(child, c.Command)
		}
		spawn.Children = append(spawn.Children, child)
	}
	r := j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Spawn{Spawn: spawn}})
	return &spawnRequest{request: r, journal: j, children: children}
}

// Stop implements [loop.Journal].
func (j *journal) Stop(block int, task tree.TaskID) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_WaitFor{WaitFor: &pb.WaitFor{
		Block: int32(block), TaskId: task.String(), Stop: true,
	}}})
}

// Await implements [loop.Journal].
func (j *journal) Await(block int, task tree.TaskID, timeout time.Duration) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_WaitFor{WaitFor: &pb.WaitFor{
		Block: int32(block), TaskId: task.String(), Timeout: durationpb.New(timeout),
	}}})
}

// Ask implements [loop.Journal].
func (j *journal) Ask(block int, argument string, rules []string) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Ask{Ask: &pb.Ask{
		Block: int32(block), Argument: argument, Rules: rules,
	}}})
}

// Compact implements [loop.Journal].
func (j *journal) Compact(upTo int, summary *tree.Message) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Compact{
		Compact: &pb.Compact{UpTo: int32(upTo), Message: wire.Message(summary)},
	}})
}

// Park implements [loop.Journal].
func (j *journal) Park() loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Park{Park: &pb.Park{}}})
}

// End implements [loop.Journal].
func (j *journal) End(e loop.Ending) loop.Pending {
	end := &pb.End{Left: e.Leftovers}
	if e.Answer != nil {
		end.Outcome = &pb.End_Answer{Answer: wire.Message(e.Answer)}
	} else {
		end.Outcome = &pb.End_Failure{Failure: &pb.Failure{Reason: pb.Reason(e.Reason), Detail: e.Detail}}
	}
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_End{End: end}})
}

// Report implements [loop.Journal].
func (j *journal) Report(activity string) {
	j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Progress{Progress: &pb.Progress{Activity: activity}}})
}

// Delta implements [loop.Journal]. A delta has no sequence number and no answer.
func (j *journal) Delta(d model.Delta) {
	if d.Restart {
		j.deltas.restart(d.Text, d.Thinking)
		return
	}
	j.deltas.add(d.Text, d.Thinking)
}
