package cli

import "testing"

func TestCostText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spent tokenUsage
		want  string
	}{
		{tokenUsage{}, "0 tokens"},
		{tokenUsage{tokens: 900, priced: 900}, "900 tokens"},
		{tokenUsage{tokens: 900}, "900 tokens, cost unknown"},
		{tokenUsage{tokens: 900, priced: 900, micros: 1234}, "900 tokens, about $0.0012"},
		{tokenUsage{tokens: 4200, priced: 4200, micros: 420_000}, "4.2k tokens, about $0.42"},
		{tokenUsage{tokens: 2e6, priced: 1e6, micros: 42_000_000}, "2.0M tokens, about $42.00 and 1.0M tokens of unknown cost"},
	} {
		if got := test.spent.text("tokens"); got != test.want {
			t.Errorf("%+v: %q, want %q", test.spent, got, test.want)
		}
	}
}
