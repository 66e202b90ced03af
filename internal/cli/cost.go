package cli

import (
	"fmt"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// totalTokens counts all tokens, whatever they cost.
func totalTokens(u *pb.Usage) int64 {
	return u.GetInputTokens() + u.GetOutputTokens() + u.GetCacheReadTokens() + u.GetCacheWriteTokens()
}

// tokenUsage is the tokens that were used, and their known cost.
type tokenUsage struct {
	tokens, priced int64
	micros         int64 // of the priced tokens, in millionths of a US dollar
}

// addUsage adds a usage.
func (s tokenUsage) addUsage(u *pb.Usage) tokenUsage {
	return s.plus(tokenUsage{totalTokens(u), u.GetPricedTokens(), u.GetCostMicros()})
}

func (s tokenUsage) plus(o tokenUsage) tokenUsage {
	return tokenUsage{s.tokens + o.tokens, s.priced + o.priced, s.micros + o.micros}
}

// cost formats the known cost; empty if it was nothing.
func (s tokenUsage) cost() string {
	switch {
	case s.tokens == 0 || s.priced == s.tokens && s.micros == 0:
		return ""
	case s.priced == 0:
		return "cost unknown"
	case s.priced < s.tokens:
		return fmt.Sprintf("about %s and %s tokens of unknown cost", moneyText(s.micros), countText(s.tokens-s.priced))
	}
	return "about " + moneyText(s.micros)
}

// text formats the tokens and the cost.
func (s tokenUsage) text(unit string) string {
	text := countText(s.tokens) + " " + unit
	if cost := s.cost(); cost != "" {
		text += ", " + cost
	}
	return text
}

// moneyText formats an amount: $0.0042, $0.42, $42.00.
func moneyText(micros int64) string {
	const dollar, cent = 1e6, 1e4
	if micros < 10*cent {
		return fmt.Sprintf("$%.4f", float64(micros)/dollar)
	}
	return fmt.Sprintf("$%.2f", float64(micros)/dollar)
}
