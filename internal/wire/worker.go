package wire

import (
	"fmt"
	"iter"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// ClaimFrom parses a claim and returns its session separately.
func ClaimFrom(c *pb.Claim) (tree.SessionID, tree.Claim, error) {
	session, err := tree.ParseID[tree.Session](c.GetSessionId())
	if err != nil {
		return session, tree.Claim{}, fmt.Errorf("claim: session: %w", err)
	}
	task, err := tree.ParseID[tree.Task](c.GetTaskId())
	if err != nil {
		return session, tree.Claim{}, fmt.Errorf("claim: task: %w", err)
	}
	return session, tree.Claim{
		Task:   task,
		Token:  tree.Token{Epoch: c.GetEpoch(), Nonce: c.GetNonce()},
		Worker: c.GetWorkerId(),
	}, nil
}

// ReattachFrom parses a reattachment and returns its session separately. Both are zero for a slot
// that has only stood by, because it has no run to continue.
func ReattachFrom(r *pb.Reattach) (tree.SessionID, tree.Reattach, error) {
	if r.GetSessionId() == "" && r.GetTaskId() == "" && r.GetTakesNonce() != 0 {
		return tree.SessionID{}, tree.Reattach{}, nil
	}
	session, err := tree.ParseID[tree.Session](r.GetSessionId())
	if err != nil {
		return session, tree.Reattach{}, fmt.Errorf("reattach: session: %w", err)
	}
	task, err := tree.ParseID[tree.Task](r.GetTaskId())
	if err != nil {
		return session, tree.Reattach{}, fmt.Errorf("reattach: task: %w", err)
	}
	return session, tree.Reattach{Task: task, Token: tree.Token{Epoch: r.GetEpoch(), Nonce: r.GetNonce()}}, nil
}

// AgentLookup sets the agent and the model of a child by their names, if the agent exists and may
// be spawned.
type AgentLookup func(child *tree.Child)

// CommandFrom parses a request of an attempt. Claim and Delta are not commands of an attempt.
func CommandFrom(req *pb.WorkRequest, from tree.From, agents AgentLookup) (tree.Command, error) {
	switch k := req.GetKind().(type) {
	case *pb.WorkRequest_Append:
		m, err := MessageFrom(k.Append.GetMessage())
		if err != nil {
			return nil, fmt.Errorf("append: %w", err)
		}
		return tree.AppendAnswer{From: from, Message: m}, nil
	case *pb.WorkRequest_CallStarted:
		return tree.StartCall{From: from, Block: int(k.CallStarted.GetBlock())}, nil
	case *pb.WorkRequest_CallClose:
		r := k.CallClose.GetResult()
		return tree.CloseCall{
			From: from, Block: int(r.GetBlock()), Text: r.GetText(), IsError: r.GetIsError(), Denial: denialFrom(k.CallClose.GetDenial()),
		}, nil
	case *pb.WorkRequest_Spawn:
		return spawnFrom(k.Spawn, from, agents)
	case *pb.WorkRequest_WaitFor:
		target, err := tree.ParseID[tree.Task](k.WaitFor.GetTaskId())
		if err != nil {
			return nil, fmt.Errorf("wait for: %w", err)
		}
		return tree.AwaitTask{
			From: from, Block: int(k.WaitFor.GetBlock()), Target: target,
			Timeout: min(k.WaitFor.GetTimeout().AsDuration(), maxAwait), Stop: k.WaitFor.GetStop(),
		}, nil
	case *pb.WorkRequest_Ask:
		return askFrom(k.Ask, from)
	case *pb.WorkRequest_Park:
		return tree.Park{From: from}, nil
	case *pb.WorkRequest_Progress:
		return tree.Report{From: from, Activity: k.Progress.GetActivity(), Output: k.Progress.GetOutput()}, nil
	case *pb.WorkRequest_StartHooks:
		return tree.StartHooks{From: from, Ran: hookReportsFrom(k.StartHooks.GetRan())}, nil
	case *pb.WorkRequest_StopHooks:
		return stopHooksFrom(k.StopHooks, from)
	case *pb.WorkRequest_End:
		return endFrom(k.End, from)
	case *pb.WorkRequest_CommandEnd:
		return commandEndFrom(k.CommandEnd, from), nil
	case *pb.WorkRequest_Compact:
		return compactFrom(k.Compact, from)
	}
	return nil, fmt.Errorf("request %d has an unknown kind", req.GetSeq())
}

// ModelAnswer returns the model's answer in a request of an attempt, or nil if it has none.
func ModelAnswer(req *pb.WorkRequest) *pb.Message {
	switch k := req.GetKind().(type) {
	case *pb.WorkRequest_Append:
		return k.Append.GetMessage()
	case *pb.WorkRequest_End:
		return k.End.GetAnswer()
	case *pb.WorkRequest_StopHooks:
		return k.StopHooks.GetAnswer()
	case *pb.WorkRequest_Compact:
		return k.Compact.GetMessage()
	}
	return nil
}

// maxJoined bounds the responses in one message: an answer, the assignment of the run that it
// gives, and its transcript, if that is one piece.
const maxJoined = 3

// JoinResponses joins responses into one message, unless they are more than maxJoined.
func JoinResponses(responses []*pb.WorkResponse) []*pb.WorkResponse {
	if n := len(responses); n < 2 || n > maxJoined {
		return responses
	}
	first := responses[0]
	first.FollowedBy = responses[1:]
	return responses[:1]
}

// SplitResponses yields a response, and then those that came in the same message.
func SplitResponses(r *pb.WorkResponse) iter.Seq[*pb.WorkResponse] {
	return func(yield func(*pb.WorkResponse) bool) {
		if !yield(r) {
			return
		}
		for _, next := range r.GetFollowedBy() {
			if !yield(next) {
				return
			}
		}
	}
}

// maxAwait bounds how long a call may wait for a task's output.
const maxAwait = 10 * time.Minute

func spawnFrom(s *pb.Spawn, from tree.From, agents AgentLookup) (tree.Command, error) {
	cmd := tree.SpawnCalls{From: from, Children: make([]tree.CallChild, len(s.GetChildren()))}
	for i, c := range s.GetChildren() {
		resume, err := optionalID[tree.Task](c.GetResumeTaskId())
		if err != nil {
			return nil, fmt.Errorf("spawn: child %d: resume: %w", i, err)
		}
		cmd.Children[i] = tree.CallChild{
			Block: int(c.GetBlock()),
			Child: tree.Child{
				AgentName: c.GetAgent(), Description: c.GetDescription(),
				Prompt: c.GetPrompt(), Model: c.GetModel(), Fork: c.GetForkContext(),
				Context: c.GetContext(), MaxIterations: int(c.GetMaxIterations()),
				Timeout: c.GetTimeout().AsDuration().Truncate(time.Microsecond),
			},
			Resume: resume, Background: c.GetBackground(),
			Join: joinFrom(c), JoinFor: c.GetJoinTimeout().AsDuration().Truncate(time.Microsecond),
		}
		if cmd.Children[i].Shell = shellFrom(c); cmd.Children[i].Shell == nil {
			agents(&cmd.Children[i].Child)
		}
	}
	return cmd, nil
}

func endFrom(e *pb.End, from tree.From) (tree.Command, error) {
	switch k := e.GetOutcome().(type) {
	case *pb.End_Answer:
		m, err := MessageFrom(k.Answer)
		if err != nil {
			return nil, fmt.Errorf("end: %w", err)
		}
		return tree.End{From: from, Answer: &m, Left: e.GetLeft()}, nil
	case *pb.End_Failure:
		return tree.End{From: from, Reason: tree.Reason(k.Failure.GetReason()), Detail: k.Failure.GetDetail(), Left: e.GetLeft()}, nil
	}
	return nil, fmt.Errorf("end: expected an answer or a failure")
}

// denialFrom parses a denial by permissions, the only kind that a worker reports.
func denialFrom(d *pb.Denial) tree.Denial {
	if d == nil {
		return tree.Denial{}
	}
	return tree.Denial{Cause: tree.DeniedByPermission, Argument: d.GetArgument(), Detail: d.GetDetail()}
}
