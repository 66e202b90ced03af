package agentdef

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes a file below a directory of the test's.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func agentFile(name, prompt string) string {
	return "---\nname: " + name + "\ndescription: d\nmode: both\n---\n" + prompt
}

func TestLibrary(t *testing.T) {
	t.Parallel()
	first, second, plugins := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, first, "a.md", agentFile("a", "one"))
	put(t, first, "plan.md", agentFile("plan", "mine"))
	put(t, second, "other.md", agentFile("a", "two"))
	put(t, second, "notes.txt", "not an agent")
	put(t, plugins, "tools/agents/b.md", agentFile("b", "of a plugin"))
	put(t, plugins, "empty/README.md", "no agents")
	l := NewLibrary([]string{first, second}, plugins)
	r, problems := l.Read()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, want := range map[string]string{"a": "two", "plan": "mine", "tools:b": "of a plugin", "explore": "You find"} {
		d, ok := r.Get(name)
		if !ok || !strings.HasPrefix(d.Prompt, want) {
			t.Errorf("%s: %+v", name, d)
		}
		if again, err := Parse(d.Source, d.Marshal()); err != nil || again.Version != d.Version || again.Name != name {
			t.Errorf("%s parsed again: %+v, %v", name, again, err)
		}
	}
	if again, _ := l.Read(); again != r {
		t.Error("nothing was changed, but Read gives another registry")
	}
}

func TestLibraryFollowsTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := NewLibrary([]string{dir}, "")
	expect := func(when, prompt string, problem string, kept bool) {
		t.Helper()
		r, problems := l.Read()
		got := ""
		if d, ok := r.Get("a"); ok {
			got = d.Prompt
		}
		if got != prompt {
			t.Errorf("%s: a is %q, want %q", when, got, prompt)
		}
		switch {
		case problem == "" && len(problems) > 0:
			t.Errorf("%s: %v", when, problems)
		case problem != "" && (len(problems) != 1 || !strings.Contains(problems[0].Err.Error(), problem) || problems[0].Kept != kept):
			t.Errorf("%s: %v, want %s", when, problems, problem)
		}
	}
	expect("at first", "", "", false)
	put(t, dir, "a.md", "---\nname: a\n---\nx")
	expect("broken from the start", "", "a.md:2: description: missing", false)
	put(t, dir, "a.md", agentFile("a", "one"))
	expect("mended", "one", "", false)
	put(t, dir, "a.md", agentFile("a", "two"))
	expect("changed", "two", "", false)
	put(t, dir, "a.md", "no front matter")
	expect("broken", "two", "a.md:1: expected", true)
	expect("still broken", "two", "a.md:1: expected", true)
	put(t, dir, "b.md", agentFile("a", "again"))
	put(t, dir, "a.md", agentFile("a", "three"))
	expect("defined twice", "three", `agent "a" is already defined by`, false)
	put(t, dir, "c.md", agentFile("x:y", "colon"))
	if err := os.Remove(filepath.Join(dir, "b.md")); err != nil {
		t.Fatal(err)
	}
	expect("a plugin's name", "three", "has a colon", false)
	for _, name := range []string{"a.md", "c.md"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	expect("removed", "", "", false)
	put(t, dir, "a.md", agentFile("a", "four"))
	expect("there again", "four", "", false)
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	expect("the directory is gone", "four", "no such file", true)
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	expect("and back", "four", "", false)
}

// TestPluginsOutlastAMoment: the agents of plugins stay while the plugins can't be read.
func TestPluginsOutlastAMoment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "plugins")
	l := NewLibrary(nil, dir)
	expect := func(when string, there bool, problems ...string) {
		t.Helper()
		r, found := l.Read()
		if _, ok := r.Get("tools:a"); ok != there {
			t.Errorf("%s: the agent is there: %t", when, ok)
		}
		if len(found) != len(problems) {
			t.Fatalf("%s: %v", when, found)
		}
		for i, want := range problems {
			if p := found[i]; !strings.HasSuffix(p.Source, want) || p.Kept != there {
				t.Errorf("%s: %+v, want %s", when, p, want)
			}
		}
	}
	expect("at first", false, "plugins")
	put(t, dir, "tools/agents/a.md", agentFile("a", "one"))
	expect("put", true)
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	expect("all plugins away", true, "plugins", filepath.Join("tools", "agents"))
	expect("still away", true, "plugins", filepath.Join("tools", "agents"))
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	expect("back", true)
	if err := os.RemoveAll(filepath.Join(dir, "tools")); err != nil {
		t.Fatal(err)
	}
	expect("one removed", false)
}
