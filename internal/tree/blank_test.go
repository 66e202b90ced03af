package tree_test

import (
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

func TestBlank(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, " \t\n": true, "\u00a0": true, "\u200b": true, "\x00\a": true, "\ufeff \u2060": true,
		"a": false, " .": false, "\u200b\u00e9": false, "\U0001F333": false,
	} {
		if tree.Blank(text) != want {
			t.Errorf("%q is blank: %t", text, !want)
		}
	}
}
