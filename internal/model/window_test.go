package model

import (
	"strings"
	"testing"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"": DefaultWindow, "nobody's": DefaultWindow, "gpt-4o-mini": 128_000, "claude-x": 200_000, "gpt-5-mini": 272_000, "gpt-6-sol": 272_000} {
		if got := Window(name); got != want {
			t.Errorf("the window of %q is %d, want %d", name, got, want)
		}
		if got := CompactAt(name); got != want*compactShare/100 {
			t.Errorf("%q is summed up at %d", name, got)
		}
	}
}

// TestConversationsStayBelowWhatIsTaken: OpenAI's models of a window of 400,000 take no
// more than 272,000 of it for the prompt, and those of a larger one cost twice as much
// above that.
func TestConversationsStayBelowWhatIsTaken(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Fields("gpt-5 gpt-5-mini gpt-5.4 gpt-5.4-mini gpt-5.5 gpt-5.6-sol gpt-6-luna") {
		if got := CompactAt(name); got >= 272_000 {
			t.Errorf("%s is summed up at %d", name, got)
		}
	}
}
