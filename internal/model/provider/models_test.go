package provider

import (
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/agentdef"
)

// TestOrchestratorsKnowEachVendor: a name stands for a model of the same vendor here and in the
// built-in table of orchestrators.
func TestOrchestratorsKnowEachVendor(t *testing.T) {
	t.Parallel()
	table := agentdef.StandardModels()
	for _, v := range vendors {
		if pin, ok := table.Resolve(v.name + "/x"); !ok || pin.Provider != v.name {
			t.Errorf("there is no entry of %s", v.name)
		}
		for _, glob := range table.Names() {
			name := strings.NewReplacer("[0-9]", "3", "*", "x").Replace(glob)
			pin, _ := table.Resolve(name)
			if pin.Name == name && v.owns(name) != (pin.Provider == v.name) {
				t.Errorf("%s is a model of %q in the table; one of %s: %t", name, pin.Provider, v.name, v.owns(name))
			}
		}
		if !v.owns(v.defaultModel) {
			t.Errorf("%s is none of %s", v.defaultModel, v.name)
		}
	}
}

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
