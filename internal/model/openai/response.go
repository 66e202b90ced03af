package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/tree"
)

// responseBuilder builds an answer from the events of a stream.
type responseBuilder struct {
	items []responses.ResponseOutputItemUnion // the complete items
	last  responses.Response                  // from the last event
}

// handle handles an event. It reports whether the answer is complete.
func (r *responseBuilder) handle(e *responses.ResponseStreamEventUnion, emit func(model.Delta)) (whole bool, err error) {
	switch e.Type {
	case "response.output_text.delta":
		emit(model.Delta{Text: e.Delta})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		emit(model.Delta{Text: e.Delta, Thinking: true})
	case "response.function_call_arguments.delta":
		emit(model.Delta{})
	case "response.output_item.done":
		r.items = append(r.items, e.Item)
	case "response.completed", "response.incomplete":
		r.last = e.Response
		return true, nil
	case "response.failed":
		return false, providerError(e.Response.Error.RawJSON())
	case "error":
		return false, providerError(e.RawJSON())
	}
	return false, nil
}

// providerError returns the error for an answer that the provider ended with an error.
func providerError(said string) error {
	body, err := json.Marshal(map[string]json.RawMessage{"error": json.RawMessage(said)})
	if err != nil { // the event contained no error
		body = nil
	}
	return &model.Error{
		Kind: upstream.RefineKind(parseError(body).kind(), said),
		Err:  fmt.Errorf("the provider broke the answer off: %s", said),
	}
}

// answer returns the complete answer.
func (r *responseBuilder) answer() *model.Answer {
	out := &model.Answer{Model: r.last.Model, Stop: r.stop(), Usage: responseUsage(&r.last.Usage)}
	items := r.output()
	for i := range items {
		cut := i == len(items)-1 && (out.Stop == tree.StopMaxTokens || out.Stop == tree.StopUnspecified)
		out.Blocks = append(out.Blocks, blocksOf(&items[i], cut, out.Stop == tree.StopRefusal)...)
	}
	return out
}

// output returns all items. Some servers omit them in the last event.
func (r *responseBuilder) output() []responses.ResponseOutputItemUnion {
	if len(r.last.Output) > 0 {
		return r.last.Output
	}
	return r.items
}

// blocksOf translates an item. If the model refused, its calls are dropped, because they belong
// to what it refused.
func blocksOf(item *responses.ResponseOutputItemUnion, cut, declined bool) (out []tree.Block) {
	switch item.Type {
	case "reasoning":
		var texts []string
		for _, s := range item.Summary {
			texts = append(texts, s.Text)
		}
		for _, c := range item.Content { // sent by open models
			texts = append(texts, c.Text)
		}
		out = append(out, sealReasoning(item.ID, item.EncryptedContent, strings.Join(texts, "\n\n")))
	case "message":
		for _, c := range item.Content {
			if text := c.Text + c.Refusal; text != "" {
				out = append(out, tree.Text{Text: text})
			}
		}
	case "function_call":
		if !declined {
			out = append(out, tree.ToolUse{
				ProviderID: item.CallID, Name: item.Name, Input: upstream.ToolInput(item.Arguments.OfString, cut),
			})
		}
	}
	return out
}

// stop returns the stop reason. Unspecified means that the answer may be incomplete.
func (r *responseBuilder) stop() tree.StopReason {
	switch r.last.IncompleteDetails.Reason {
	case "max_output_tokens":
		return tree.StopMaxTokens
	case "content_filter":
		return tree.StopRefusal
	}
	if r.last.Status != responses.ResponseStatusCompleted {
		return tree.StopUnspecified
	}
	end := tree.StopEndTurn
	items := r.output()
	for i := range items {
		for _, c := range items[i].Content {
			if c.Refusal != "" {
				return tree.StopRefusal
			}
		}
		if items[i].Type == "function_call" {
			end = tree.StopToolUse
		}
	}
	return end
}

func responseUsage(u *responses.ResponseUsage) tree.Usage {
	read, written := u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens
	return tree.Usage{
		Input: max(0, u.InputTokens-read-written), Output: u.OutputTokens, CacheRead: read, CacheWrite: written,
	}
}
