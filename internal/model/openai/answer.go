package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/tree"
)

// answerBuilder builds an answer from the chunks of a stream.
type answerBuilder struct {
	model    string
	thinking strings.Builder
	text     strings.Builder
	refusal  strings.Builder
	calls    []*call
	finish   string
	usage    tree.Usage
}

// call is a tool call that is being received.
type call struct {
	index    int64
	id, name string
	input    strings.Builder
}

// handle handles a chunk.
func (a *answerBuilder) handle(c *sdk.ChatCompletionChunk, emit func(model.Delta)) {
	if c.Model != "" {
		a.model = c.Model
	}
	if c.JSON.Usage.Valid() {
		a.usage = usage(&c.Usage)
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue // only one answer was requested
		}
		text, thoughts := content(&choice.Delta)
		if thoughts = reasoning(&choice.Delta) + thoughts; thoughts != "" {
			a.thinking.WriteString(thoughts)
			emit(model.Delta{Text: thoughts, Thinking: true})
		}
		if text != "" {
			a.text.WriteString(text)
			emit(model.Delta{Text: text})
		}
		a.refusal.WriteString(choice.Delta.Refusal)
		for j := range choice.Delta.ToolCalls {
			a.addCall(&choice.Delta.ToolCalls[j])
			emit(model.Delta{})
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
}

// content returns the text of a chunk, and the reasoning in it. Servers of reasoning models may
// send a list of both instead of a text, as Mistral's do. Other parts are ignored.
func content(d *sdk.ChatCompletionChunkChoiceDelta) (text, thoughts string) {
	var parts []struct {
		Type, Text string
		Thinking   []struct{ Text string }
	}
	list := d.JSON.Content.Raw()
	if !strings.HasPrefix(list, "[") || json.Unmarshal([]byte(list), &parts) != nil {
		return d.Content, ""
	}
	for _, p := range parts {
		if p.Type == "text" {
			text += p.Text
		}
		for _, t := range p.Thinking {
			thoughts += t.Text
		}
	}
	return text, thoughts
}

// reasoning returns the reasoning that servers send next to the text, in one of two fields that
// are not OpenAI's.
func reasoning(d *sdk.ChatCompletionChunkChoiceDelta) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if f, ok := d.JSON.ExtraFields[name]; ok && json.Unmarshal([]byte(f.Raw()), &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// addCall adds a piece of a call. Pieces of different calls may have the same index, because
// some servers give all calls the index 0.
func (a *answerBuilder) addCall(d *sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	var c *call
	for i := len(a.calls) - 1; i >= 0 && c == nil; i-- {
		if a.calls[i].index == d.Index {
			c = a.calls[i]
		}
	}
	if c == nil || c.isAnother(d) {
		c = &call{index: d.Index}
		a.calls = append(a.calls, c)
	}
	if c.id == "" {
		c.id = d.ID
	}
	if c.name == "" {
		c.name = d.Function.Name
	}
	c.input.WriteString(d.Function.Arguments)
}

// isAnother reports whether a piece with the same index belongs to a new call. It does if its
// id differs or, without ids, if it has a name and input while the current call is complete.
func (c *call) isAnother(d *sdk.ChatCompletionChunkChoiceDeltaToolCall) bool {
	if d.ID != "" || c.id != "" {
		return d.ID != "" && c.id != "" && d.ID != c.id
	}
	return c.name != "" && d.Function.Name != "" && d.Function.Arguments != "" && json.Valid([]byte(c.input.String()))
}

func usage(u *sdk.CompletionUsage) tree.Usage {
	read, written := u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens
	return tree.Usage{
		Input: max(0, u.PromptTokens-read-written), Output: u.CompletionTokens, CacheRead: read, CacheWrite: written,
	}
}

// finished returns the answer when the stream is complete.
func (a *answerBuilder) finished() *model.Answer {
	out := &model.Answer{Model: a.model, Usage: a.usage, Stop: a.stop()}
	if a.thinking.Len() > 0 {
		out.Blocks = append(out.Blocks, tree.Thinking{Text: a.thinking.String()})
	}
	for _, text := range []string{a.text.String(), a.refusal.String()} {
		if text != "" {
			out.Blocks = append(out.Blocks, tree.Text{Text: text})
		}
	}
	if out.Stop == tree.StopRefusal {
		return out // what the model had started belongs to what it refused
	}
	for i, c := range a.calls {
		cut := (out.Stop == tree.StopMaxTokens || out.Stop == tree.StopUnspecified) && i == len(a.calls)-1
		out.Blocks = append(out.Blocks, tree.ToolUse{ProviderID: c.id, Name: c.name, Input: upstream.ToolInput(c.input.String(), cut)})
	}
	return out
}

// stop returns the stop reason. Servers use reasons of their own in addition to OpenAI's. An
// unknown reason is unspecified, and the answer may be incomplete.
func (a *answerBuilder) stop() tree.StopReason {
	end := tree.StopUnspecified
	switch strings.ToLower(a.finish) {
	case "length", "model_length", "max_tokens", "model_context_window_exceeded":
		return tree.StopMaxTokens
	case "content_filter", "sensitive":
		return tree.StopRefusal
	case "stop", "tool_calls", "function_call", "tool_use", "end_turn", "eos", "eos_token", "stop_sequence":
		end = tree.StopEndTurn
	}
	switch {
	case a.refusal.Len() > 0:
		return tree.StopRefusal
	case len(a.calls) > 0 && end == tree.StopEndTurn: // some servers send "stop" for it
		return tree.StopToolUse
	}
	return end
}

// failed reports whether the finish reason says that the server failed.
func (a *answerBuilder) failed() bool {
	switch strings.ToLower(a.finish) {
	case "error", "network_error", "insufficient_system_resource", "abort":
		return true
	}
	return false
}
