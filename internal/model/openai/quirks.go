package openai

import (
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/coppice-run/coppice/internal/tree"
)

// habits are what a model wants in requests that others would refuse. They are learned
// from refusals: which servers have them can't be told from names.
type quirks struct {
	// noReasoningWithTools: with tools it takes requests only if it is told not to reason. OpenAI's
	// models from gpt-5.6 on are like that here.
	noReasoningWithTools bool
	// thoughts: a call goes back with the reasoning that led to it, as DeepSeek's models
	// want it.
	replaysReasoning bool
	// noEffort: it takes no word of how much it is to reason, or not this one; over
	// Responses, and over the older API, which refuses more.
	noEffort, noEffortChat bool
	// chatOnly: it is asked over chat completions, since it, or the key, is refused over Responses.
	chatOnly bool
	// noEncryptedReasoning: it does not reason, and refuses to be asked for its reasoning.
	noEncryptedReasoning bool
	// noPhase: it refuses to be told which of its texts were answers.
	noPhase bool
}

// merge gives these habits and others together.
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

// descriptions says what they are, for people.
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

// after gives the habits that a refusal over chat completions speaks of, besides these. Its
// words are all there is to tell them by.
func (h quirks) learnFrom(err error, tools bool) quirks {
	h.noReasoningWithTools = h.noReasoningWithTools || tools && strings.Contains(err.Error(), reasoningEffort)
	h.replaysReasoning = h.replaysReasoning || strings.Contains(err.Error(), reasoningContent)
	return h
}

// The fields of chat completions that refusals name.
const (
	reasoningContent = "reasoning_content"
	reasoningEffort  = "reasoning_effort"
)

// effort says how much the model is to reason; empty: it is not told.
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

// refusesEffort reports whether a model has refused to be told how much to reason.
func refusesEffort(err error) bool {
	return strings.Contains(err.Error(), reasoningEffort) || strings.Contains(err.Error(), "reasoning.effort")
}

// addReasoning puts the reasoning that a server like this one has sent into a message with
// calls. Where there was none it is empty, but there.
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
