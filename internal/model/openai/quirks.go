package openai

import (
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/coppice-run/coppice/internal/tree"
)

// quirks are requirements of a model on requests that other models would refuse. They are
// learned from refusals, because names do not tell which servers have them.
type quirks struct {
	// noReasoningWithTools: requests with tools must disable reasoning. OpenAI's models from
	// gpt-5.6 on require that over chat completions.
	noReasoningWithTools bool
	// replaysReasoning: calls must be sent back with the reasoning that led to them, as
	// DeepSeek's models require.
	replaysReasoning bool
	// noEffort: the model rejects the reasoning effort, or this value of it, over Responses;
	// noEffortChat: over chat completions, which rejects more.
	noEffort, noEffortChat bool
	// chatOnly: the model, or the key, is refused over Responses, so chat completions are used.
	chatOnly bool
	// noEncryptedReasoning: the model does not reason, and rejects a request for its reasoning.
	noEncryptedReasoning bool
	// noPhase: the model rejects the phases of its texts.
	noPhase bool
}

// merge returns the union of both.
func (h quirks) merge(o quirks) quirks {
	return quirks{
		noReasoningWithTools: h.noReasoningWithTools || o.noReasoningWithTools,
		replaysReasoning:     h.replaysReasoning || o.replaysReasoning,
		noEffort:             h.noEffort || o.noEffort,
		noEffortChat:         h.noEffortChat || o.noEffortChat,
		chatOnly:             h.chatOnly || o.chatOnly,
		noEncryptedReasoning: h.noEncryptedReasoning || o.noEncryptedReasoning,
		noPhase:              h.noPhase || o.noPhase,
	}
}

// descriptions describes the quirks for people.
func (h quirks) descriptions() (out []string) {
	for _, habit := range []struct {
		has  bool
		name string
	}{
		{h.chatOnly, "over chat completions"},
		{h.noReasoningWithTools, "without reasoning where there are tools"},
		{h.replaysReasoning, "with its reasoning in chat completions"},
		{h.noEffort || h.noEffortChat, "without an effort"},
		{h.noEncryptedReasoning, "without asking for its reasoning"},
		{h.noPhase, "without the phases of its texts"},
	} {
		if habit.has {
			out = append(out, habit.name)
		}
	}
	return out
}

// learnFrom adds the quirks that a refusal over chat completions reveals. Only the error text
// identifies them.
func (h quirks) learnFrom(err error, tools bool) quirks {
	h.noReasoningWithTools = h.noReasoningWithTools || tools && strings.Contains(err.Error(), reasoningEffort)
	h.replaysReasoning = h.replaysReasoning || strings.Contains(err.Error(), reasoningContent)
	return h
}

// Fields of chat completions that refusals name.
const (
	reasoningContent = "reasoning_content"
	reasoningEffort  = "reasoning_effort"
)

// effort returns the reasoning effort; empty: none is sent.
func (c Config) effort() shared.ReasoningEffort {
	refused := c.quirks.noEffortChat
	if c.usesResponses() {
		refused = c.quirks.noEffort
	}
	if refused {
		return ""
	}
	return shared.ReasoningEffort(c.Effort)
}

// refusesEffort reports whether a model has rejected the reasoning effort.
func refusesEffort(err error) bool {
	return strings.Contains(err.Error(), reasoningEffort) || strings.Contains(err.Error(), "reasoning.effort")
}

// addReasoning adds to a message with calls the reasoning that the server sent, if the model
// requires it. The field is present even if there was none.
func (h quirks) addReasoning(m *sdk.ChatCompletionAssistantMessageParam, blocks []tree.Block) {
	if !h.replaysReasoning || len(m.ToolCalls) == 0 {
		return
	}
	var texts []string
	for _, b := range blocks {
		if thought, ok := b.(tree.Thinking); ok && thought.Signature == "" {
			texts = append(texts, thought.Text)
		}
	}
	m.SetExtraFields(map[string]any{reasoningContent: strings.Join(texts, "\n")})
}
