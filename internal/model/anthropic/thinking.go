package anthropic

import (
	"regexp"
	"strconv"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/tree"
)

// Generations are numbered 100 times the model's number, with what is behind its point.
const (
	firstAdaptive = 406 // earlier ones refuse to be told that they may think as they find fit
	lastBudgeted  = 406 // later ones refuse a number of tokens
)

// param says it to a model as far as that takes it; what it would refuse is left out, and
// it reasons as it does by itself. A model whose name does not tell its generation is
// told as it is.
func (t Thinking) param(name string, messages []tree.Message) (p sdk.ThinkingConfigParamUnion) {
	g, known := generation(name)
	switch {
	case t.Adaptive && (!known || g >= firstAdaptive):
		p.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
	case t.Tokens > 0 && (!known || g <= lastBudgeted) && !lostThinking(messages):
		p = sdk.ThinkingConfigParamOfEnabled(t.Tokens)
	}
	return p
}

// generationPattern finds the number in a model's name, as in claude-opus-4-20250514,
// claude-3-7-sonnet and anthropic/claude-sonnet-4.6. A date has more digits.
var generationPattern = regexp.MustCompile(`claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?:\D|$)`)

func generation(name string) (g int, known bool) {
	found := generationPattern.FindStringSubmatch(name)
	if found == nil {
		return 0, false
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2]) // there may be none
	return 100*major + minor, true
}

// withThinkingBudget gives the bound of an answer together with its reasoning, and that of the
// reasoning: the provider counts both, and demands more than the reasoning alone. What the
// model can't write is taken from the answer down to half of what it can, and then from
// the reasoning.
func withThinkingBudget(name string, answer, thoughts int64) (both, reasoning int64) {
	limit := outputLimit(name)
	if limit == 0 {
		return answer + thoughts, thoughts
	}
	thoughts = min(thoughts, limit-min(answer, limit/2))
	return min(answer+thoughts, limit), thoughts
}

// outputLimit gives how many tokens a model writes at most, of those that take a number
// of tokens to think with; 0 if that is no less than 128,000, or not known. The provider
// refuses requests that ask for more.
func outputLimit(name string) int64 {
	for _, known := range []struct {
		prefix string
		limit  int64
	}{
		{"claude-3-7-", 64_000},
		{"claude-haiku-4-5", 64_000},
		{"claude-sonnet-4-5", 64_000},
		{"claude-sonnet-4-0", 64_000},
		{"claude-sonnet-4-2025", 64_000},
		{"claude-opus-4-5", 64_000},
		{"claude-opus-4-1", 32_000},
		{"claude-opus-4-0", 32_000},
		{"claude-opus-4-2025", 32_000},
	} {
		if strings.HasPrefix(name, known.prefix) {
			return known.limit
		}
	}
	return 0
}

// lostThinking reports whether reasoning of the turn under way can't go back to the
// provider. It demands that reasoning goes on with what it was, so there is no more
// of it until the turn is over.
func lostThinking(messages []tree.Message) bool {
	for i := len(messages) - 1; i >= 0 && messages[i].Role != tree.RoleUser; i-- {
		for _, b := range messages[i].Blocks {
			if thought, ok := b.(tree.Thinking); ok && isForeign(thought) {
				return true
			}
		}
	}
	return false
}

// Reasoning is bound to what stood before it: models from Fable 5.1 on refuse it once
// the system prompt, the tools or an earlier message have changed, which here a
// reminder, a summary and a tool that comes in do. Asked for, they drop it instead. It
// is not asked for unless one has refused, since accounts from before that take all of
// their reasoning back otherwise.
const (
	dropHeader = "thinking-binding-controls-2026-08-01"
	dropField  = "thinking.block_binding.prefix_mismatch_behavior" //nolint:misspell // the provider's word
)

// refusedThinking reports whether a request was refused for the reasoning in it, and
// whether the provider would drop that if it is asked to. Its words are all there is to
// tell it by.
func refusedThinking(err error) (refused, droppable bool) {
	if !upstream.IsInvalid(err) {
		return false, false
	}
	droppable = strings.Contains(err.Error(), dropField)
	return droppable || strings.Contains(err.Error(), "thinking` block"), droppable
}

// dropping asks the provider to drop what reasoning it would refuse.
func dropOptions(p *sdk.MessageNewParams) []option.RequestOption {
	options := []option.RequestOption{option.WithHeaderAdd("anthropic-beta", dropHeader)}
	if p.Thinking.OfEnabled == nil {
		// What the models that refuse do by themselves, and where the wish has its place.
		options = append(options, option.WithJSONSet("thinking.type", "adaptive"))
	}
	return append(options, option.WithJSONSet(dropField, "drop_block"))
}
