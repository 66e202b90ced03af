package wire

import (
	"fmt"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// Event converts an event.
func Event(e *tree.Event) *pb.Event {
	out := &pb.Event{Seq: e.Seq, Time: timestamp(e.Time), TaskId: id(e.Task), Run: int32(e.Run)}
	switch k := e.Kind.(type) {
	case tree.SessionOpened:
		out.Kind = &pb.Event_SessionOpened{SessionOpened: &pb.SessionOpened{Agent: k.Agent, Title: k.Title}}
	case tree.Started:
		out.Kind = &pb.Event_Started{Started: started(k)}
	case tree.Dispatched:
		out.Kind = &pb.Event_Dispatched{Dispatched: &pb.TaskDispatched{Epoch: k.Epoch, WorkerId: k.Worker}}
	case tree.MessageAppended:
		out.Kind = &pb.Event_Message{Message: messageAppended(k)}
	case tree.CallResolved:
		out.Kind = &pb.Event_CallClosed{CallClosed: &pb.CallClosed{
			Call: callRef(k.Ref), IsError: k.IsError, Child: childRun(k.Child), Denial: denial(k.Denial),
		}}
	case tree.Parked:
		out.Kind = &pb.Event_Parked{Parked: &pb.TaskParked{Wait: wait(k.On)}}
	case tree.Readied:
		out.Kind = &pb.Event_Ready{Ready: &pb.TaskReady{Cause: pb.ReadyCause(k.Cause), Epoch: k.Epoch}}
	case tree.Progressed:
		out.Kind = &pb.Event_Progress{Progress: &pb.TaskProgress{
			Activity: k.Activity, ToolUses: int32(k.ToolUses), Tokens: k.Tokens, Recent: k.Recent,
		}}
	case tree.Result:
		out.Kind = &pb.Event_Result{Result: &pb.TaskResult{
			State: pb.TaskState(k.State), Reason: pb.Reason(k.Reason), Detail: k.Detail,
			MessageId: id(k.Message), Usage: Usage(k.Usage), ToolUses: int32(k.ToolUses),
		}}
	case tree.Backgrounded:
		out.Kind = &pb.Event_Backgrounded{Backgrounded: &pb.TaskBackgrounded{}}
	case tree.HookRan:
		out.Kind = &pb.Event_HookRan{HookRan: hookRan(k)}
	case tree.CallbackEnded:
		out.Kind = &pb.Event_CallbackEnded{CallbackEnded: callbackEnded(k)}
	case tree.Queued:
		out.Kind = &pb.Event_Queued{Queued: &pb.MessageQueued{
			News: childRun(k.News), MessageId: id(k.Message), Waiting: int32(k.Waiting),
		}}
	default:
		branchEvent(out, k)
		inboxEvent(out, k)
		approvalEvent(out, k)
	}
	return out
}

func started(k tree.Started) *pb.TaskStarted {
	out := &pb.TaskStarted{
		ParentId: id(k.Parent), Branch: pb.TaskBranch(k.Branch), Kind: pb.TaskKind(k.Kind),
		Depth: int32(k.Depth), Agent: k.Agent, Description: k.Description, Background: k.Background, Base: Base(k.Base),
	}
	if k.Call != (tree.CallRef{}) {
		out.Call = callRef(k.Call)
	}
	return out
}

func messageAppended(k tree.MessageAppended) *pb.MessageAppended {
	out := &pb.MessageAppended{
		MessageId: id(k.Message), Ordinal: int32(k.Ordinal), Role: pb.Role(k.Role),
		Usage: Usage(k.Usage), News: childRun(k.News), SumsUpTo: int32(k.UpTo), Activity: k.Activity,
	}
	for _, c := range k.Calls {
		out.Calls = append(out.Calls, &pb.OpenedCall{Block: int32(c.Block), Tool: c.Tool})
	}
	return out
}

func callRef(r tree.CallRef) *pb.CallRef {
	return &pb.CallRef{Message: int32(r.Message), Block: int32(r.Block)}
}

// EncodeEvent returns the bytes of an event as they are stored.
func EncodeEvent(e *tree.Event) []byte { return encode(Event(e)) }

// DecodeEvent decodes the result of EncodeEvent.
func DecodeEvent(data []byte) (*pb.Event, error) {
	e := new(pb.Event)
	if err := e.UnmarshalVT(data); err != nil {
		return nil, fmt.Errorf("decoding an event: %w", err)
	}
	return e, nil
}

func denial(d tree.Denial) *pb.Denial {
	if d.Cause == tree.DenialUnspecified {
		return nil
	}
	return &pb.Denial{
		Cause: pb.DenialCause(d.Cause), Tool: d.Tool, Argument: d.Argument, Rules: d.Rules, Detail: d.Detail, ByDefinition: d.ByDefinition,
	}
}
