package anthropic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/tree"
)

// answerBuilder builds an answer from the events of a stream.
type answerBuilder struct {
	started     bool
	model       string
	parts       []*part
	usage       tree.Usage
	stop        tree.StopReason
	refusalText string // the model's explanation of a refusal
}

// part is a content block that is being received.
type part struct {
	kind      string
	id, name  string
	text      strings.Builder // or the JSON of a call's input
	whole     string          // the input of a call, if the start event contained it
	signature strings.Builder
	done      bool
}

// handle handles an event. It returns an error for an invalid stream.
func (a *answerBuilder) handle(e *sdk.MessageStreamEventUnion, emit func(model.Delta)) error {
	switch e.Type {
	case "message_start":
		a.started = true
		a.model = e.Message.Model
		u := e.Message.Usage
		a.setUsage(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
		emit(model.Delta{})
	case "content_block_start":
		return a.start(e)
	case "content_block_delta":
		p, err := a.openPart(e.Index)
		if err != nil {
			return err
		}
		p.add(&e.Delta, emit)
	case "content_block_stop":
		p, err := a.openPart(e.Index)
		if err != nil {
			return err
		}
		p.done = true
	case "message_delta":
		a.stop = stopReason(e.Delta.StopReason)
		a.refusalText = e.Delta.StopDetails.Explanation
		u := e.Usage
		a.setUsage(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
	}
	return nil
}

func (a *answerBuilder) start(e *sdk.MessageStreamEventUnion) error {
	if !a.started || e.Index != int64(len(a.parts)) {
		return fmt.Errorf("block %d of the answer begins after %d blocks", e.Index, len(a.parts))
	}
	b := e.ContentBlock
	p := &part{kind: b.Type, id: b.ID, name: b.Name}
	switch b.Type {
	case "text":
		p.text.WriteString(b.Text)
	case "thinking":
		p.text.WriteString(b.Thinking)
		p.signature.WriteString(b.Signature)
	case "redacted_thinking":
		p.signature.WriteString(redactedPrefix + b.Data)
	case "tool_use":
		p.whole = b.JSON.Input.Raw()
	}
	a.parts = append(a.parts, p)
	return nil
}

// openPart returns a block that is still being received.
func (a *answerBuilder) openPart(index int64) (*part, error) {
	if index < 0 || index >= int64(len(a.parts)) || a.parts[index].done {
		return nil, fmt.Errorf("block %d of the answer is not being written", index)
	}
	return a.parts[index], nil
}

func (p *part) add(d *sdk.MessageStreamEventUnionDelta, emit func(model.Delta)) {
	switch d.Type {
	case "text_delta":
		p.text.WriteString(d.Text)
		emit(model.Delta{Text: d.Text})
	case "thinking_delta":
		p.text.WriteString(d.Thinking)
		emit(model.Delta{Text: d.Thinking, Thinking: true})
	case "signature_delta":
		p.signature.WriteString(d.Signature)
	case "input_json_delta":
		p.text.WriteString(d.PartialJSON)
		emit(model.Delta{})
	}
}

// setUsage updates the usage. Each count is a total; 0 may mean that it was not sent.
func (a *answerBuilder) setUsage(input, output, read, written int64) {
	for _, c := range []struct {
		now *int64
		n   int64
	}{
		{&a.usage.Input, input}, {&a.usage.Output, output}, {&a.usage.CacheRead, read}, {&a.usage.CacheWrite, written},
	} {
		if c.n > 0 {
			*c.now = c.n
		}
	}
}

func stopReason(r sdk.StopReason) tree.StopReason {
	switch r {
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence:
		return tree.StopEndTurn
	case sdk.StopReasonToolUse:
		return tree.StopToolUse
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return tree.StopMaxTokens
	case sdk.StopReasonRefusal:
		return tree.StopRefusal
	}
	return tree.StopUnspecified
}

// finish returns the answer when the stream has ended with message_stop.
func (a *answerBuilder) finish(ctx context.Context) (*model.Answer, error) {
	if slices.ContainsFunc(a.parts, func(p *part) bool { return !p.done }) || !a.started {
		return nil, upstream.TransportError(ctx, errors.New("the stream ended in the middle of a block"))
	}
	out := &model.Answer{Model: a.model, Usage: a.usage, Stop: a.stop}
	if a.stop == tree.StopRefusal {
		// What the model had started belongs to what it refused, and would be refused again.
		if a.refusalText != "" {
			out.Blocks = []tree.Block{tree.Text{Text: a.refusalText}}
		}
		return out, nil
	}
	for i, p := range a.parts {
		cut := (a.stop == tree.StopMaxTokens || a.stop == tree.StopUnspecified) && i == len(a.parts)-1
		if b := p.block(cut); b != nil {
			out.Blocks = append(out.Blocks, b)
		}
	}
	return out, nil
}

// block returns the block, or nil for unknown types. cut says that the output limit, or an unknown
// reason, may have cut the answer in this block.
func (p *part) block(cut bool) tree.Block {
	switch p.kind {
	case "text":
		if p.text.Len() > 0 {
			return tree.Text{Text: p.text.String()}
		}
	case "thinking", "redacted_thinking":
		return tree.Thinking{Text: p.text.String(), Signature: p.signature.String()}
	case "tool_use":
		input := p.text.String()
		if input == "" {
			input = p.whole
		}
		return tree.ToolUse{ProviderID: p.id, Name: p.name, Input: upstream.ToolInput(input, cut)}
	}
	return nil
}
