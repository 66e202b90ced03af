package wire

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// inboxEvent sets the kind of an event that is about an inbox or the life of a session.
func inboxEvent(out *pb.Event, kind tree.EventKind) {
	switch k := kind.(type) {
	case tree.InboxTaken:
		out.Kind = &pb.Event_InboxTaken{InboxTaken: &pb.InboxTaken{Messages: int32(k.Messages), News: int32(k.News)}}
	case tree.InboxCleared:
		cleared := &pb.InboxCleared{Messages: int32(k.Messages), Left: int32(k.Left)}
		for _, run := range k.News {
			cleared.News = append(cleared.News, childRun(run))
		}
		out.Kind = &pb.Event_InboxCleared{InboxCleared: cleared}
	case tree.InboxEmpty:
		out.Kind = &pb.Event_InboxEmpty{InboxEmpty: &pb.InboxEmpty{}}
	case tree.SessionChanged:
		out.Kind = &pb.Event_SessionChanged{SessionChanged: &pb.SessionChanged{
			Change: pb.SessionChange(k.Change), Title: k.Title, Budget: Budget(k.Budget),
		}}
	}
}

// InboxEntry converts an entry of an inbox.
func InboxEntry(e *tree.InboxEntry) *pb.InboxEntry {
	said := tree.Message{Blocks: e.Blocks}
	return &pb.InboxEntry{
		MessageId: id(e.ID), Text: said.Text(), News: childRun(e.News), QueueTime: timestamp(e.QueuedAt),
	}
}

// entryTrace is the field with the sender's trace in the stored body of an inbox entry. Replicas
// that don't know the field ignore it.
const (
	entryTrace      protowire.Number = 100
	entryTraceBytes                  = len(tree.Trace{}.ID) + 8 + 1
)

// EncodeEntry returns the stored body of an inbox entry: its blocks and its trace.
func EncodeEntry(e *tree.InboxEntry) []byte {
	body := EncodeBody(&tree.Message{Blocks: e.Blocks})
	if e.Trace.IsZero() {
		return body
	}
	body = protowire.AppendTag(body, entryTrace, protowire.BytesType)
	body = protowire.AppendVarint(body, uint64(entryTraceBytes))
	body = append(body, e.Trace.ID[:]...)
	body = binary.BigEndian.AppendUint64(body, uint64(e.Trace.Parent))
	return append(body, e.Trace.Flags)
}

// DecodeEntry decodes the result of EncodeEntry.
func DecodeEntry(data []byte, e *tree.InboxEntry) error {
	var m tree.Message
	if err := DecodeBody(data, &m); err != nil {
		return err
	}
	if len(m.Blocks) > 0 {
		e.Blocks = m.Blocks
	}
	for len(data) > 0 { // data consists of valid fields, because it was decoded above
		field, _, tag := protowire.ConsumeTag(data)
		if field != entryTrace {
			_, _, n := protowire.ConsumeField(data)
			data = data[n:]
			continue
		}
		trace, _ := protowire.ConsumeBytes(data[tag:])
		if len(trace) != entryTraceBytes {
			return fmt.Errorf("a trace has %d bytes", len(trace))
		}
		parent := trace[copy(e.Trace.ID[:], trace):]
		e.Trace.Parent, e.Trace.Flags = tree.SpanID(binary.BigEndian.Uint64(parent)), parent[8]
		return nil
	}
	return nil
}

// Output converts the output of a task's run.
func Output(t *tree.Task, out tree.Output, cut bool) *pb.TaskOutput {
	all := &pb.TaskOutput{
		TaskId: id(t.ID), Kind: pb.TaskKind(t.Kind), Status: pb.TaskState(t.State), Description: t.Description,
		Output: out.Output, Cut: cut,
	}
	if t.Kind == tree.KindShell {
		all.Added = &pb.TaskOutput_Shell{Shell: shellOutput(t, out)}
		return all
	}
	agent := &pb.AgentOutput{
		Prompt: out.Prompt, Error: out.Error, Reason: pb.Reason(t.Reason), Progress: out.Progress,
	}
	if t.State == tree.StateCompleted {
		agent.Result = out.Output
	}
	all.Added = &pb.TaskOutput_Agent{Agent: agent}
	return all
}

// joinFrom parses how a child is joined.
func joinFrom(c *pb.SpawnChild) tree.Join {
	need := c.GetJoinNeed()
	switch policy := c.GetJoin(); {
	case policy == pb.JoinPolicy_JOIN_POLICY_UNSPECIFIED || policy == pb.JoinPolicy_JOIN_POLICY_ALL:
		return tree.JoinAll
	case policy != pb.JoinPolicy_JOIN_POLICY_ANY || need < 0 || need > int32(tree.JoinMax):
		return unknownJoin
	case need == 0:
		return tree.JoinAny
	}
	return tree.Join(need) //nolint:gosec // it is in bounds
}

// unknownJoin is a policy that the core refuses.
const unknownJoin = tree.Join(255)

// SetJoin sets how a child is joined.
func SetJoin(c *pb.SpawnChild, j tree.Join) {
	c.Join = pb.JoinPolicy_JOIN_POLICY_ALL
	if j != tree.JoinAll {
		c.Join, c.JoinNeed = pb.JoinPolicy_JOIN_POLICY_ANY, int32(j)
	}
}
