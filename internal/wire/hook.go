package wire

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

func hookRan(k tree.HookRan) *pb.HookRan {
	return &pb.HookRan{
		Event: pb.HookEvent(k.Event), Name: k.Name, Matcher: k.Matcher, Outcome: pb.HookOutcome(k.Outcome),
		Duration: durationpb.New(time.Duration(k.Millis) * time.Millisecond), ExitCode: int32(k.ExitCode), Message: k.Message,
	}
}

func callbackEnded(k tree.CallbackEnded) *pb.CallbackEnded {
	out := &pb.CallbackEnded{
		Run: int32(k.Run), Url: k.URL, Delivered: k.Delivered, Tries: int32(k.Tries), Detail: k.Detail,
	}
	if !k.Approval.IsZero() {
		out.ApprovalId = k.Approval.String()
	}
	return out
}

// HookReports converts a worker's reports on hooks.
func HookReports(ran []tree.HookRun) []*pb.HookReport {
	out := make([]*pb.HookReport, len(ran))
	for i, r := range ran {
		out[i] = &pb.HookReport{Output: r.Output, Ran: hookRan(tree.HookRan{
			Event: r.Event, Name: r.Name, Matcher: r.Matcher, Outcome: r.Outcome,
			Millis: r.Millis, ExitCode: r.ExitCode, Message: r.Message,
		})}
	}
	return out
}

func hookReportsFrom(reports []*pb.HookReport) []tree.HookRun {
	ran := make([]tree.HookRun, len(reports))
	for i, r := range reports {
		h := r.GetRan()
		ran[i] = tree.HookRun{
			Event: tree.HookEvent(enum(h.GetEvent())), Name: h.GetName(), Matcher: h.GetMatcher(),
			Outcome: tree.HookOutcome(enum(h.GetOutcome())), Millis: h.GetDuration().AsDuration().Milliseconds(),
			ExitCode: int(h.GetExitCode()), Message: h.GetMessage(), Output: r.GetOutput(),
		}
	}
	return ran
}

// enum converts a number of the contract to the core's smaller type. A number that does not fit
// becomes unspecified.
func enum[E ~int32](n E) uint8 {
	if n < 0 || n > math.MaxUint8 {
		return 0
	}
	return uint8(n)
}

func stopHooksFrom(s *pb.StopHooks, from tree.From) (tree.Command, error) {
	m, err := MessageFrom(s.GetAnswer())
	if err != nil {
		return nil, fmt.Errorf("stop hooks: %w", err)
	}
	return tree.StopHooks{From: from, Answer: &m, Ran: hookReportsFrom(s.GetRan()), Left: s.GetLeft()}, nil
}
