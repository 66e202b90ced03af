package tool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coppice-run/coppice/internal/policy"
)

// Every tool that comes with Coppice says what permissions have to know of it, and
// has a name that rules know.
func TestBuiltinToolsAreGuarded(t *testing.T) {
	t.Parallel()
	for _, tool := range every() {
		name := tool.Spec().Name
		if _, ok := tool.(Guarded); !ok {
			t.Errorf("%T has no guard", tool)
		}
		if internal := GuardOf(tool).Internal; internal != (tool.Effect() == EffectDelegated) {
			t.Errorf("%s is internal: %t", name, internal)
		}
	}
	for _, name := range Names() {
		if _, err := policy.ParseRule(name); err != nil {
			t.Errorf("%s is missing in policy's list of tools that a rule may name: %v", name, err)
		}
	}
	// The permissions know which tools have no argument.
	for _, tool := range every() {
		if name := tool.Spec().Name; (GuardOf(tool).Arguments == nil) != (name == FindTool) {
			t.Errorf("%s has an argument: %t", name, name == FindTool)
		}
	}
}

// TestCheckSaysWhatCallSays: a call with wrong input has the same answer before it is asked about
// and when it is performed.
func TestCheckSaysWhatCallSays(t *testing.T) {
	t.Parallel()
	w := setup(t, "a.go", "package a\n")
	for _, tool := range every() {
		for _, input := range []string{`{"nonsense":1}`, `[]`, `{`} {
			call := Call{Input: json.RawMessage(input), Workspace: w}
			before, refused := Check(tool, call)
			if done, _ := tool.Call(t.Context(), call).(Done); !refused || before != done {
				t.Errorf("%s of %s: %q, and then %q", tool.Spec().Name, input, before.Text, done.Text)
			}
		}
	}
	if done, refused := Check(readTool{}, Call{Input: json.RawMessage(`{"path":"none"}`), Workspace: w}); refused {
		t.Errorf("an input that fits is refused: %s", done.Text)
	}
}

// A link leads around a rule for its own name, and not around one for where it leads.
func TestArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secrets", "key"), []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("secrets", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, want := range map[string][]string{
		"secrets/key":         {"secrets/key"},
		"./x/../secrets//key": {"secrets/key"},
		dir + "/secrets/key":  {"secrets/key"},
		"link/key":            {"link/key", "secrets/key"},
		"link/new/file":       {"link/new/file", "secrets/new/file"},
		"../up":               {"../up"},
		"":                    {"."},
	} {
		if got := w.ruleNames(name); !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	deny, err := policy.ParseRules([]string{"read(secrets/**)", "glob(secrets)", "glob(secrets/**)"})
	if err != nil {
		t.Fatal(err)
	}
	a := policy.RootAuthority(policy.Layer{Deny: deny}, policy.Permissions{}, false).Open()
	for input, want := range map[string]policy.Decision{
		`{"path": "link/key"}`: policy.Deny, `{"path": "other"}`: policy.Allow, `{"path": 5}`: policy.Allow, `{`: policy.Allow,
	} {
		if v, _ := Judge(a, readTool{}, Call{Input: json.RawMessage(input), Workspace: w}); v.Decision != want {
			t.Errorf("%s: %s, want %s", input, v.Decision, want)
		}
	}
	for input, want := range map[string]policy.Decision{
		`{"pattern": "*.go"}`:                                   policy.Allow,
		`{"pattern": "{a,secrets}/*"}`:                          policy.Allow, // starts in the workspace itself
		`{"pattern": "*", "path": "secrets"}`:                   policy.Deny,
		`{"pattern": "secrets/*"}`:                              policy.Deny,
		`{"pattern": "../secrets/*", "path": "other"}`:          policy.Deny,
		`{"pattern": "../other/*", "path": "secrets"}`:          policy.Allow,
		`{"pattern": "link/**"}`:                                policy.Deny,
		`{"pattern": "` + dir + `/secrets/*", "path": "other"}`: policy.Deny,
		`{"pattern": "secrets/x/{a,b}", "path": "` + dir + `"}`: policy.Deny,
	} {
		if v, _ := Judge(a, globTool{}, Call{Input: json.RawMessage(input), Workspace: w}); v.Decision != want {
			t.Errorf("glob %s: %s, want %s", input, v.Decision, want)
		}
	}
	for input, want := range map[string]policy.Decision{
		`{"subagent_type": "explore"}`:                                                 policy.Allow,
		`{"subagent_type": "explore", "context_files": ["other"]}`:                     policy.Allow,
		`{"subagent_type": "explore", "context_files": ["other", "link/key"]}`:         policy.Deny,
		`{"subagent_type": "explore", "context_files": ["other", 5, "./secrets/key"]}`: policy.Deny,
	} {
		if v, arg := Judge(a, NewTask(nil), Call{Input: json.RawMessage(input), Workspace: w}); v.Decision != want || arg != "explore" {
			t.Errorf("task %s: %v about %q, want %s", input, v, arg, want)
		}
	}
}

// TestRulesThatAskAreNamedOnce: however many files a call reads.
func TestRulesThatAskAreNamedOnce(t *testing.T) {
	t.Parallel()
	ask, err := policy.ParseRules([]string{"read(a*)", "read"})
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t)
	input := json.RawMessage(`{"subagent_type": "explore", "context_files": ["b1", "a1", "b1", "a2", "b2"]}`)
	layers := policy.Layers{{Ask: ask}, {Ask: ask[1:]}}
	if v, _ := Judge(layers, NewTask(nil), Call{Input: input, Workspace: w}); !slices.Equal(v.Rules, []string{"read", "read(a*)"}) {
		t.Errorf("%s by %q", v.Decision, v.Rules)
	}
}
