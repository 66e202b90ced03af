package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// Witness records what a worker receives and does. It wraps the parts of the worker, so the
// worker does not know about it.
type Witness struct {
	log  *Log
	name string

	mu            sync.Mutex
	attempts      map[attemptID]*attempt
	idle          chan struct{}    // closed when no attempt is left
	callsOrdinals map[string]int32 // by task: the ordinal of the last message with calls
}

// NewWitness returns a witness that writes to a log under a name.
func NewWitness(log *Log, by string) *Witness {
	return &Witness{log: log, name: by, attempts: map[attemptID]*attempt{}, idle: make(chan struct{}), callsOrdinals: map[string]int32{}}
}

// WaitIdle waits until the worker knows the end of each attempt. Clients may see the end
// earlier.
func (w *Witness) WaitIdle(ctx context.Context) error {
	w.mu.Lock()
	left, rests := len(w.attempts), w.idle
	w.mu.Unlock()
	if left == 0 {
		return nil
	}
	select {
	case <-rests:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d attempts go on: %w", left, ctx.Err())
	}
}

// add writes a record. If that fails, it ends the process, because an unrecorded worker proves
// nothing.
func (w *Witness) add(r Record) {
	r.By = w.name
	if err := w.log.Add(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Model wraps a model to record each call before it is made. It writes the identity of each
// call of the tool note into its input, so that effects can be told apart.
func (w *Witness) Model(of model.Model) model.Model { return &witnessedModel{w, of} }

type witnessedModel struct {
	*Witness
	inner model.Model
}

func (m *witnessedModel) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	at := noteInput{Session: req.Session.String(), Task: req.Task.String()}
	for i := range req.Messages {
		at.Ordinal = max(at.Ordinal, int32(req.Messages[i].Ordinal)) // a summary comes before older messages
	}
	called := Record{Kind: ModelCalled, Session: at.Session, Task: at.Task, Ordinal: at.Ordinal}
	if req.Messages[len(req.Messages)-1].Ordinal == 0 { // the request for a summary, which is no message of the conversation
		called.Kind = SummaryDue
	}
	m.add(called)
	answer, err := m.inner.Generate(ctx, req, emit)
	if err != nil {
		return nil, err
	}
	for i, b := range answer.Blocks {
		use, ok := b.(tree.ToolUse)
		if !ok || use.Name != noteName {
			continue
		}
		at.Block = int32(i)
		if use.Input, err = json.Marshal(at); err != nil {
			return nil, fmt.Errorf("naming a call of %s: %w", noteName, err)
		}
		answer.Blocks[i] = use
	}
	return answer, nil
}

// noteName is the name of the tool of [Witness.Tools]. Rules of permissions may name it, because
// it is that of an MCP server's tool.
const noteName = "mcp__witness__note"

// noteInput is the input of a call of note: the identity of the call.
type noteInput struct {
	Session string `json:"session"`
	Task    string `json:"task"`
	Ordinal int32  `json:"ordinal"`
	Block   int32  `json:"block"`
}

// Tools returns a tool whose lasting effect is a record.
func (w *Witness) Tools() []tool.Tool { return []tool.Tool{note{w}} }

type note struct{ *Witness }

func (note) Spec() model.ToolSpec {
	return model.ToolSpec{Name: noteName, Description: "Makes a note.", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (note) Effect() tool.Effect { return tool.EffectLasting }

// Guard lets every call run without approval.
func (note) Guard() tool.Guard { return tool.Guard{Access: policy.AccessRead} }

// noteDelay is how long a note continues after its effect. A crash in this time leaves an
// effect whose result is not recorded.
const noteDelay = 40 * time.Millisecond

func (n note) Call(ctx context.Context, call tool.Call) tool.Outcome {
	var at noteInput
	if err := json.Unmarshal(call.Input, &at); err != nil {
		return tool.Done{IsError: true, Text: err.Error()}
	}
	n.add(Record{Kind: Effect, Session: at.Session, Task: at.Task, Ordinal: at.Ordinal, Block: at.Block})
	select {
	case <-time.After(noteDelay):
	case <-ctx.Done():
	}
	return tool.Done{Text: "noted"}
}

// digest returns a short hash.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// DigestOf returns a hash of a protobuf message. Equal bytes have equal hashes.
func DigestOf(m proto.Message) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "not to be encoded: " + err.Error()
	}
	return digest(data)
}

// messageDigest hashes the part of a message that a worker sends. The orchestrator adds the
// rest.
func messageDigest(m *pb.Message) string {
	u := m.GetUsage()
	if u != nil {
		u = &pb.Usage{
			InputTokens: u.GetInputTokens(), OutputTokens: u.GetOutputTokens(),
			CacheReadTokens: u.GetCacheReadTokens(), CacheWriteTokens: u.GetCacheWriteTokens(),
		}
	}
	return DigestOf(&pb.Message{Blocks: m.GetBlocks(), Model: m.GetModel(), Usage: u, StopReason: m.GetStopReason()})
}

// resultDigest hashes the part of a result that a worker sends.
func resultDigest(r *pb.ToolResultBlock) string {
	return DigestOf(&pb.ToolResultBlock{Text: r.GetText(), IsError: r.GetIsError()})
}
