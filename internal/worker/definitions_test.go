package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/workspace"
)

const handy = `---
name: handy
description: has tools
mode: both
---
Go on.
`

// TestToolsFollowWhatThereIs: what runs are handed is remembered only as long as it
// follows from their definition and the agents.
func TestToolsFollowWhatThereIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	places, err := workspace.New(workspace.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	place, err := places.Enter(t.Context(), workspace.Run{})
	if err != nil {
		t.Fatal(err)
	}
	defer place.Leave()
	come := &comers{}
	w := &Worker{Config: Config{Tools: tool.Builtin(), ToolSource: come, Places: places}}
	scout, bard := []tool.Spawnable{{Name: "scout"}}, []tool.Spawnable{{Name: "bard"}}
	skill := filepath.Join(dir, ".claude", "skills", "knot")
	for _, step := range []struct {
		name   string
		change func()
		agents []tool.Spawnable
		has    string // in what the run is told
		hasNot string
	}{
		{"first", func() {}, scout, "scout", "bard"},
		{"again", func() {}, scout, "scout", "bard"},
		{"other agents", func() {}, bard, "bard", "scout"},
		{"none", func() {}, nil, "grep", "scout"},
		{"a tool comes", func() { come.tools = []tool.Tool{comer{}} }, scout, "mcp__s__new", "missing"},
		{"a server goes", func() { come.missing = []tool.Missing{{Entry: "mcp__x__*", Why: "gone"}} }, scout, "mcp__x__*: gone", "bard"},
		{"all are gone", func() { *come = comers{} }, scout, "scout", "mcp__"},
		{"a skill comes", func() { write(t, skill, "---\nname: knot\ndescription: tying\n---\nTie.\n") }, scout, "tying", "mcp__"},
		{"it changes", func() { write(t, skill, "---\nname: knot\ndescription: untying\n---\nTie.\n") }, scout, "untying", "mcp__"},
		{"it goes", func() { must(t, os.RemoveAll(skill)) }, scout, "scout", "tying"},
	} {
		step.change()
		def, err := w.definitions.parse("handy", []byte(handy))
		must(t, err)
		h, err := w.tools(t.Context(), place, def, step.agents)
		must(t, err)
		told := h.note
		for _, one := range slices.Concat(h.initial, h.deferred) {
			told += one.Spec().Name + "\n" + one.Spec().Description
			told += string(one.Spec().Schema)
		}
		if !strings.Contains(told, step.has) || strings.Contains(told, step.hasNot) {
			t.Errorf("%s: %q is not there, or %q is", step.name, step.has, step.hasNot)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	def, err := w.definitions.parse("handy", []byte(handy))
	must(t, err)
	if _, err := w.tools(over, place, def, scout); !errors.Is(err, context.Canceled) {
		t.Errorf("an attempt that is over gets tools: %v", err)
	}
}

// TestCachedDefinitionsAreBounded: a tenant whose runs pin ever more long definitions does not use up
// the memory of a worker that all tenants share.
func TestCachedDefinitionsAreBounded(t *testing.T) {
	t.Parallel()
	var d definitions
	long := strings.Repeat("Go on.\n", 35_000)
	for n := range maxDefinitionBytes/len(long) + 2 {
		_, err := d.parse("handy", fmt.Appendf(nil, "%s%d\n%s", handy, n, long))
		must(t, err)
		bytes := 0
		for text := range d.byText {
			bytes += len(text)
		}
		if bytes < len(long) || bytes > maxDefinitionBytes {
			t.Fatalf("of %d definitions, %d bytes are cached", n+1, bytes)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, folder, text string) {
	t.Helper()
	must(t, os.MkdirAll(folder, 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "SKILL.md"), []byte(text), 0o600))
}

// comers are tools that come and go.
type comers struct {
	tools   []tool.Tool
	missing []tool.Missing
}

func (c *comers) Tools(context.Context, func(string) bool) ([]tool.Tool, []tool.Missing) {
	return c.tools, c.missing
}

type comer struct{}

func (comer) Spec() model.ToolSpec                         { return model.ToolSpec{Name: "mcp__s__new"} }
func (comer) Effect() tool.Effect                          { return tool.EffectNone }
func (comer) Call(context.Context, tool.Call) tool.Outcome { return tool.Done{} }
