package openai

import (
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/coppice-run/coppice/internal/tree"
)

// habits are what a model wants in requests that others would refuse. They are learned
// from refusals: which servers have them can't be told from names.
type habits struct {
	// still: with tools it takes requests only if it is told not to reason. OpenAI's
	// models from gpt-5.6 on are like that here.
	still bool
	// thoughts: a call goes back with the reasoning that led to it, as DeepSeek's models
	// want it.
	thoughts bool
	// noEffort: it takes no word of how much it is to reason, or not this one; over
	// Responses, and over the older API, which refuses more.
	noEffort, noEffortOlder bool
	// older: it is asked over chat completions, since it, or the key, is refused over Responses.
	older bool
	// sealsNothing: it does not reason, and refuses to be asked for its reasoning.
	sealsNothing bool
	// noPhase: it refuses to be told which of its texts were answers.
	noPhase bool
}

// and gives these habits and others together.
func (h habits) and(o habits) habits {
	return habits{
		still:         h.still || o.still,
		thoughts:      h.thoughts || o.thoughts,
		noEffort:      h.noEffort || o.noEffort,
		noEffortOlder: h.noEffortOlder || o.noEffortOlder,
		older:         h.older || o.older,
		sealsNothing:  h.sealsNothing || o.sealsNothing,
		noPhase:       h.noPhase || o.noPhase,
	}
}

// names says what they are, for people.
func (h habits) names() (out []string) {
	for _, habit := range []struct {
		has  bool
		name string
	}{
		{h.older, "over chat completions"},
		{h.still, "without reasoning where there are tools"},
		{h.thoughts, "with its reasoning in chat completions"},
		{h.noEffort || h.noEffortOlder, "without an effort"},
		{h.sealsNothing, "without asking for its reasoning"},
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
func (h habits) after(err error, tools bool) habits {
	h.still = h.still || tools && strings.Contains(err.Error(), reasoningEffort)
	h.thoughts = h.thoughts || strings.Contains(err.Error(), reasoningContent)
	return h
}

// The fields of chat completions that refusals name.
const (
	reasoningContent = "reasoning_content"
	reasoningEffort  = "reasoning_effort"
)

// effort says how much the model is to reason; empty: it is not told.
func (c Config) effort() shared.ReasoningEffort {
	refused := c.habits.noEffortOlder
	if c.overResponses() {
		refused = c.habits.noEffort
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

// remembered puts the reasoning that a server like this one has sent into a message with
// calls. Where there was none it is empty, but there.
func (h habits) remembered(m *sdk.ChatCompletionAssistantMessageParam, blocks []tree.Block) {
	if !h.thoughts || len(m.ToolCalls) == 0 {
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
