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

// Generations are 100 times the major version plus the minor version.
const (
	firstAdaptive = 406 // earlier models refuse adaptive thinking
	lastBudgeted  = 406 // later models refuse a budget
)

// param returns the thinking parameter for a model. It is omitted if the model would refuse it;
// the model then uses its default. A model whose name does not contain a generation gets the
// configured value.
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

// generationPattern finds the version in a model name, as in claude-opus-4-20250514,
// claude-3-7-sonnet and anthropic/claude-sonnet-4.6. A date has more digits.
var generationPattern = regexp.MustCompile(`claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?:\D|$)`)

func generation(name string) (g int, known bool) {
	found := generationPattern.FindStringSubmatch(name)
	if found == nil {
		return 0, false
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2]) // optional
	return 100*major + minor, true
}

// withThinkingBudget returns the bound of answer and reasoning together, and the budget of the
// reasoning. The provider counts both, and requires the bound to exceed the budget. If the sum
// exceeds the output limit, the answer is reduced first, to no less than half of the limit, and
// then the reasoning.
func withThinkingBudget(name string, answer, thoughts int64) (both, reasoning int64) {
	limit := outputLimit(name)
	if limit == 0 {
		return answer + thoughts, thoughts
	}
	thoughts = min(thoughts, limit-min(answer, limit/2))
	return min(answer+thoughts, limit), thoughts
}

// outputLimit returns the output limit of models that accept a budget. It is 0 if the limit is
// at least 128,000 or unknown. The provider refuses requests that exceed the limit.
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

// lostThinking reports whether the current turn has calls that do not continue from reasoning: the
// turn began without any, or some cannot be sent back to the provider. The provider refuses to let the
// model reason then, until the turn has ended.
func lostThinking(messages []tree.Message) bool {
	var first *tree.Message
	for i := len(messages) - 1; i >= 0 && messages[i].Role != tree.RoleUser; i-- {
		if messages[i].Role != tree.RoleAssistant {
			continue
		}
		first = &messages[i]
		for _, b := range first.Blocks {
			if thought, ok := b.(tree.Thinking); ok && isForeign(thought) {
				return true
			}
		}
	}
	return first != nil && !beginsWithThinking(first)
}

func beginsWithThinking(m *tree.Message) bool {
	if len(m.Blocks) == 0 {
		return false
	}
	_, thinks := m.Blocks[0].(tree.Thinking)
	return thinks
}

// Reasoning is bound to the prompt before it. Models from Fable 5.1 on refuse it if the system
// prompt, the tools or an earlier message have changed. Here reminders, summaries and added
// tools cause such changes. On request, the models drop the reasoning instead. The request is
// made only after a model has refused, because older accounts otherwise accept all of their
// reasoning.
const (
	dropHeader = "thinking-binding-controls-2026-08-01"
	dropField  = "thinking.block_binding.prefix_mismatch_behavior" //nolint:misspell // the provider's word
)

// refusedThinking reports whether a request was refused because of its reasoning, and whether
// the provider would drop that on request. Only the error text identifies this.
func refusedThinking(err error) (refused, droppable bool) {
	if !upstream.IsInvalid(err) {
		return false, false
	}
	droppable = strings.Contains(err.Error(), dropField)
	return droppable || strings.Contains(err.Error(), "thinking` block"), droppable
}

// dropOptions asks the provider to drop reasoning that it would refuse.
func dropOptions(p *sdk.MessageNewParams) []option.RequestOption {
	options := []option.RequestOption{option.WithHeaderAdd("anthropic-beta", dropHeader)}
	if p.Thinking.OfEnabled == nil {
		// the default of the models that refuse, and required for the field to be valid
		options = append(options, option.WithJSONSet("thinking.type", "adaptive"))
	}
	return append(options, option.WithJSONSet(dropField, "drop_block"))
}
