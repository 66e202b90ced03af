package agentdef

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

func define(t *testing.T, lines ...string) *Definition {
	t.Helper()
	d, err := Parse("test", []byte("---\ndescription: d\n"+strings.Join(lines, "\n")+"\n---\nYou are."))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func names(definitions []*Definition) string {
	var names []string
	for _, d := range definitions {
		names = append(names, d.Name)
	}
	return strings.Join(names, " ")
}

func TestBuiltin(t *testing.T) {
	t.Parallel()
	r, err := readBuiltin()
	if err != nil {
		t.Fatal(err)
	}
	if got := names(r.List()); got != "explore general-purpose guide plan" {
		t.Fatalf("built-in agents: %s", got)
	}
	for name, want := range map[string]struct {
		mode          tree.Mode
		tools, spawns string
	}{
		"general-purpose": {tree.ModeBoth, "", "explore general-purpose guide plan"},
		"guide":           {tree.ModeBoth, "docs", ""},
		"explore":         {tree.ModeSubagent, "ls glob grep read task task_output", "explore"},
		"plan":            {tree.ModeSubagent, "ls glob grep read", ""},
	} {
		d, ok := r.Get(name)
		if !ok || d.Mode != want.mode || strings.Join(d.Tools, " ") != want.tools || names(r.Spawnable(d)) != want.spawns {
			t.Errorf("%s: %+v spawns %s", name, d, names(r.Spawnable(d)))
		}
		again, err := Parse(d.Source, d.Marshal())
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Errorf("%s does not survive Marshal: %v", name, err)
		}
	}
	if d, ok := r.Get("nobody"); ok || d != nil {
		t.Errorf("nobody: %+v", d)
	}
}

func TestSpawnable(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry(define(t, "name: root", "mode: primary"), define(t, "name: review-a", "mode: subagent"),
		define(t, "name: review-b", "mode: both"), define(t, "name: other", "mode: subagent"))
	if err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[string]string{
		"":                                 "other review-a review-b",
		"tools: [task]":                    "other review-a review-b",
		"tools: [read]":                    "",
		"spawns: [review-*]":               "review-a review-b",
		"spawns: ['*-a', other, root, no]": "other review-a",
		"spawns: [no]":                     "",
	} {
		if got := names(r.Spawnable(define(t, "name: by", "mode: primary", lines))); got != want {
			t.Errorf("%q: %s, want %s", lines, got, want)
		}
	}
}

func TestRegistryKeepsNamesApart(t *testing.T) {
	t.Parallel()
	a, b, mine := define(t, "name: a", "mode: both"), define(t, "name: b", "mode: both"), define(t, "name: a", "mode: primary")
	if _, err := NewRegistry(a, b, mine); err == nil || !strings.Contains(err.Error(), `agent "a" is defined by`) {
		t.Errorf("two of a name: %v", err)
	}
	if _, err := NewRegistry(&Definition{Name: "a"}); err == nil {
		t.Error("a definition that was never parsed: no error")
	}
	r, err := NewRegistry(a)
	if err != nil {
		t.Fatal(err)
	}
	more, err := r.With(mine, b)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := more.Get("a"); got != mine || names(more.List()) != "a b" {
		t.Errorf("with another a: %+v of %s", got, names(more.List()))
	}
	if got, _ := r.Get("a"); got != a || names(r.List()) != "a" {
		t.Errorf("With changed what it was called on: %s", names(r.List()))
	}
	if _, err := r.With(b, b); err == nil {
		t.Error("With two of a name: no error")
	}
}
