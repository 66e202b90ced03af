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

// Witness records what a worker is told and what it does. It is wrapped around
// what the worker is made of, so the worker itself knows nothing of it.
type Witness struct {
	log  *Log
	name string

	mu            sync.Mutex
	attempts      map[attemptID]*attempt
	idle          chan struct{}    // closed when none is left
	callsOrdinals map[string]int32 // by task: the ordinal of the last message that asked for calls
}

// NewWitness makes a witness that writes to a log, under a name.
func NewWitness(log *Log, by string) *Witness {
	return &Witness{log: log, name: by, attempts: map[attemptID]*attempt{}, idle: make(chan struct{}), callsOrdinals: map[string]int32{}}
}

// WaitIdle waits until the worker has been told the end of each attempt: a client may see it
// before.
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

// add records, or ends the process: a worker without a witness proves nothing.
func (w *Witness) add(r Record) {
	r.By = w.name
	if err := w.log.Add(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Model gives a model that records each call before it is made. Inputs of the
// tool note get the identity of their call, so that its effects can be told
// apart.
func (w *Witness) Model(of model.Model) model.Model { return &witnessedModel{w, of} }

type witnessedModel struct {
	*Witness
	inner model.Model
}

func (m *witnessedModel) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	at := noteInput{Session: req.Session.String(), Task: req.Task.String(), Ordinal: int32(len(req.Messages))}
	m.add(Record{Kind: ModelCalled, Session: at.Session, Task: at.Task, Ordinal: at.Ordinal})
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

// noteName is the name of the tool of [Witness.Tools].
const noteName = "note"

// noteInput is the input of a call of the tool: which call it is.
type noteInput struct {
	Session string `json:"session"`
	Task    string `json:"task"`
	Ordinal int32  `json:"ordinal"`
	Block   int32  `json:"block"`
}

// Tools gives a tool with a lasting effect: a record.
func (w *Witness) Tools() []tool.Tool { return []tool.Tool{note{w}} }

type note struct{ *Witness }

func (note) Spec() model.ToolSpec {
	return model.ToolSpec{Name: noteName, Description: "Makes a note.", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (note) Effect() tool.Effect { return tool.EffectLasting }

// Guard: nobody has to be asked for a note.
func (note) Guard() tool.Guard { return tool.Guard{Access: policy.AccessRead} }

// noteDelay is how long a note takes after it has had its effect: the moment in
// which a crash leaves the effect without its record.
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

// digest is a short name for bytes, the same wherever it is computed.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// DigestOf names the content of a message of the contract: equal bytes, equal
// name.
func DigestOf(m proto.Message) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "not to be encoded: " + err.Error()
	}
	return digest(data)
}

// said names what of a message a worker has said: the rest is the orchestrator's.
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

// resultDigest names what a worker has said of a call.
func resultDigest(r *pb.ToolResultBlock) string {
	return DigestOf(&pb.ToolResultBlock{Text: r.GetText(), IsError: r.GetIsError()})
}
