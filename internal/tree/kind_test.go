package tree

import "testing"

func TestModes(t *testing.T) {
	t.Parallel()
	for m, want := range map[Mode][3]any{
		ModeUnspecified: {"unspecified", false, false}, ModePrimary: {"primary", true, false},
		ModeSubagent: {"subagent", false, true}, ModeBoth: {"both", true, true},
	} {
		if got := [3]any{m.String(), m.MayBeRoot(), m.MayBeSpawned()}; got != want {
			t.Errorf("%d: %v, want %v", m, got, want)
		}
	}
}
