package provider

import "testing"

func TestOverResponses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		said, base string
		want       bool
	}{
		{"", "", true},
		{"", "http://h/v1", false},
		{"chat", "", false},
		{"responses", "http://h/v1", true},
	} {
		if got := usesResponses(test.said, test.base); got != test.want {
			t.Errorf("--openai-api %q at %q: %t", test.said, test.base, got)
		}
	}
}
