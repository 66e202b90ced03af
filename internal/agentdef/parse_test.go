package agentdef

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// small is a definition with these lines of front matter more.
func small(lines ...string) string {
	front := append([]string{"---", "name: a", "description: for all", "mode: both"}, lines...)
	return strings.Join(front, "\n") + "\n---\nYou are a."
}

func TestParse(t *testing.T) {
	t.Parallel()
	full := "\ufeff---  \r\n" +
		"# who\r\nname: \"12\"\r\ndescription: >-\r\n  For\r\n  this.\r\nmode: subagent\r\nmodel: some/model-1\r\n" +
		"tools: [task, 'read']\r\nspawns:\r\n  - explore # it\r\n  - review-*\r\nmax_iterations: 40\r\ntimeout: 90s\r\non_interrupt: fail\r\nfork_context: true\r\ncompact_at: 60000\r\n" +
		"---\r\n\r\n\n    You are.\n\n---\n\nMore.  \n\n"
	got, err := Parse("x.md", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := &Definition{
		Name: "12", Description: "For this.", Mode: tree.ModeSubagent, Model: "some/model-1",
		Tools: []string{"task", "read"}, Spawns: []string{"explore", "review-*"}, MaxIterations: 40,
		Timeout: 90 * time.Second, FailOnInterrupt: true, ForkContext: true, CompactAt: 60000,
		Prompt: "    You are.\n\n---\n\nMore.", Source: "x.md", Version: got.Version,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	const canonical = "---\nname: \"12\"\ndescription: \"For this.\"\nmode: \"subagent\"\nmodel: \"some/model-1\"\n" +
		"tools: [\"task\", \"read\"]\nspawns: [\"explore\", \"review-*\"]\nmax_iterations: 40\ntimeout: \"1m30s\"\non_interrupt: \"fail\"\nfork_context: true\ncompact_at: 60000\n---\n\n    You are.\n\n---\n\nMore.\n"
	if string(got.Marshal()) != canonical {
		t.Errorf("got %q\nwant %q", got.Marshal(), canonical)
	}
}

func TestParseMore(t *testing.T) {
	t.Parallel()
	got, err := Parse("x", []byte(small("model: inherit", "tools: [read, grep, task]", "disallowed_tools: [ls]", "deferred_tools:", "- grep",
		"skills: [a, 'tools:b']", "background: true", "isolation: worktree", "reminder: |", "  Mind", "  the gap.")))
	if err != nil {
		t.Fatal(err)
	}
	want := &Definition{
		Name: "a", Description: "for all", Mode: tree.ModeBoth, Model: Inherit, Tools: []string{"read", "grep", "task"},
		DisallowedTools: []string{"ls"}, DeferredTools: []string{"grep"}, Skills: []string{"a", "tools:b"},
		Background: true, Worktree: true, Reminder: "Mind\nthe gap.", Prompt: "You are a.", Source: "x", Version: got.Version,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if again, err := Parse("x", got.Marshal()); err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("%s parsed again: %+v, %v", got.Marshal(), again, err)
	}
	for tool, allowed := range map[string]bool{"read": true, "ls": false, "write": false} {
		if got.Allows(tool) != allowed {
			t.Errorf("%s is allowed: %t", tool, !allowed)
		}
	}
	if all := define(t, "name: b", "mode: both", "disallowed_tools: [task]"); !all.Allows("ls") || all.Allows("task") {
		t.Errorf("%+v allows the wrong tools", all)
	}
	some := define(t, "name: c", "mode: both", "tools: [ls, mcp__git, mcp__mail__r*]", "disallowed_tools: [mcp__git__push*]",
		"deferred_tools: [mcp__git__*]", "background_tools: [ls, mcp__*]")
	for tool, allowed := range map[string]bool{
		"ls": true, "read": false, "mcp__git__log": true, "mcp__git__push_tags": false, "mcp__github__log": false, "mcp__mail__read": true, "mcp__mail__send": false,
	} {
		if some.Allows(tool) != allowed {
			t.Errorf("%s is allowed: %t", tool, !allowed)
		}
	}
	for entry, may := range map[string]bool{"mcp__git__*": true, "mcp__mail__*": true, "mcp__github__*": false, "mcp__git__push": false} {
		if some.MayUse(entry) != may {
			t.Errorf("%s may be used: %t", entry, !may)
		}
	}
	if again, err := Parse("x", some.Marshal()); err != nil || !reflect.DeepEqual(again.Tools, some.Tools) {
		t.Errorf("%s parsed again: %+v, %v", some.Marshal(), again, err)
	}
	named := got.Qualified("tools")
	if named.Name != "tools:a" || named.Version == got.Version || !named.OfPlugin() || got.OfPlugin() {
		t.Errorf("%+v of %+v", named, got)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	version := func(source, text string) string {
		d, err := Parse(source, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d.Version
	}
	base := version("x", small())
	if len(base) != 2*versionBytes || strings.Trim(base, "0123456789abcdef") != "" {
		t.Errorf("version %q", base)
	}
	same := strings.Replace(small(), "name: a", "# a comment\nname: 'a'", 1)
	if v := version("elsewhere", same+"\n\n"); v != base {
		t.Errorf("another version for the same definition: %s, %s", v, base)
	}
	for _, other := range []string{
		small("model: m"), small("tools: [a]"), small("spawns: [a]"), small("max_iterations: 1"), small("timeout: 5s"), small("on_interrupt: fail"), small("isolation: worktree"), small("fork_context: true"), small("compact_at: 1000"), small() + "!",
		small("disallowed_tools: [a]"), small("deferred_tools: [a]"), small("skills: [a]"), small("background: true"), small("reminder: r"),
		strings.Replace(small(), "both", "primary", 1), strings.Replace(small(), "all", "none", 1), strings.Replace(small(), "name: a", "name: b", 1),
	} {
		if version("x", other) == base {
			t.Errorf("the same version for\n%s", other)
		}
	}
}

// TestTheCanonicalFormIsBounded: what is taken can be read again once its texts are quoted,
// also as an agent of the plugin with the longest name.
func TestTheCanonicalFormIsBounded(t *testing.T) {
	t.Parallel()
	plugin := strings.Repeat("p", 64)
	taken, refused := 0, 0
	for quotes := 3800; quotes < 4100; quotes++ {
		text := "---\nname: a\nmode: both\ndescription: d\non_complete: 'https://x.example/" + strings.Repeat("a", 100) + "'\nreminder: '" +
			strings.Repeat("\"", quotes) + "'\n---\nprompt\n"
		d, err := Parse("x", []byte(text))
		if err != nil || d.Fits() != nil {
			refused++
			if err == nil && len(d.frontMatterText()) <= maxFront { // it may have been taken before
				if again, err := Parse("x", d.Marshal()); err != nil || again.Version != d.Version {
					t.Fatalf("%d: of before: %v", quotes, err)
				}
			}
			continue
		}
		taken++
		for _, d := range []*Definition{d, d.Qualified(plugin)} {
			if again, err := Parse("x", d.Marshal()); err != nil || again.Version != d.Version {
				t.Fatalf("%d: parsed again: %v", quotes, err)
			}
		}
	}
	if taken == 0 || refused == 0 {
		t.Errorf("%d were taken, %d refused", taken, refused)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxSize)
	for text, want := range map[string]string{
		"":                                  `x:1: expected "---" at the start`,
		"name: a":                           `x:1: expected "---" at the start`,
		"---\nname: a\n":                    `x:3: expected "---" at the end`,
		"---":                               `x:1: expected "---" at the end`,
		"---\n---\nYou.":                    "x:2: expected a mapping with the keys name, description",
		"---\n- a\n---\nYou.":               "x:2: expected a mapping with the keys name, description",
		"---\na: b\n...\n---\nYou.":         "x:2: unknown key a, expected one of name, description",
		small("tool: [a]"):                  "x:5: unknown key tool, expected one of name, description, mode, model, tools, disallowed_tools, ",
		small("Name: b"):                    "x:5: unknown key Name",
		small("<<: {model: m}"):             "x:5: unknown key <<",
		small("? model\n: b"):               "x:5: unknown key",
		small("5: b"):                       "x:5: unknown key 5",
		small("name: b"):                    `x:5: mapping key "name" already defined`,
		small("", "model: 'x"):              "x:6: could not find end character",
		small("...", "model: x"):            "x:2: expected one YAML document, got 2",
		small("tools: [a", "x: ["):          "x:",
		small("model: 5"):                   "x:5: model: expected a string, got a number",
		small("model:"):                     "x:5: model: expected a string, got nothing",
		small("model: true"):                "x:5: model: expected a string, got true or false",
		small("model: &a b"):                "x:5: model: expected a string, got something else (anchors",
		small("model: !!str b"):             "x:5: model: expected a string, got something else (anchors",
		small("model: [b]"):                 "x:5: model: expected a string, got a list",
		small("model: ''"):                  "x:5: model: expected the name of a model",
		small("model: a b"):                 "x:5: model: expected the name of a model",
		small("tools: ls"):                  "x:5: tools: expected a list of strings, got a string",
		small("tools: {a: b}"):              "x:5: tools: expected a list of strings, got a mapping",
		small("tools: []"):                  "x:5: tools: expected at least one entry; omit the key",
		small("tools:"):                     "x:5: tools: expected a list of strings, got nothing",
		small("tools:", "- a", "- "):        "x:7: tools: expected a string, got nothing",
		small("tools: [a, b, a]"):           `x:5: tools: "a" is given twice`,
		small("tools:", "- a", "- b c"):     `x:7: tools: expected the name of a tool: 1 to 128 letters, digits, _ and -, got "b c"`,
		small("spawns: ['[a']"):             "x:5: spawns: expected a glob",
		small("spawns: ['']"):               "x:5: spawns: expected a glob",
		small("tools: [ls]", "spawns: [a]"): `x:6: spawns: expected "task" among the tools`,
		small("timeout: 5"):                 "x:5: timeout: expected a string, got",
		small("timeout: '5'"):               "x:5: timeout: expected a duration from 1s to 720h0m0s",
		small("timeout: 0s"):                "x:5: timeout: expected a duration",
		small("timeout: 721h"):              "x:5: timeout: expected a duration",
		small("timeout: -5s"):               "x:5: timeout: expected a duration",
		small("isolation: container"):       "x:5: isolation: expected worktree; omit the key if the agent works in the directory of its parent, got \"container\"",
		"---\nname: a\ndescription: d\nmode: primary\nisolation: worktree\n---\np": "x:5: isolation: the key requires an agent that can be spawned, but mode is primary",
		small("fork_context: yes please"):                                          "x:5: fork_context: expected true or false, got a string",
		small("compact_at: 0"):                                                     "x:5: compact_at: expected a whole number from 1 to",
		small("background: 1"):                                                     "x:5: background: expected true or false, got a number",
		small("background: 'true'"):                                                "x:5: background: expected true or false, got a string",
		small("reminder: ''"):                                                      "x:5: reminder: expected a text of at most 4000 bytes",
		small("reminder: \"\\0\""):                                                 "x:5: reminder: expected a text",
		small("reminder: " + long[:4001]):                                          "x:5: reminder: expected a text",
		small("skills: [A]"):                                                       "x:5: skills: expected the name of a skill: 1 to 64",
		small("disallowed_tools: ['*']"):                                           "x:5: disallowed_tools: expected the name of a tool",
		small("tools: [a]", "disallowed_tools: [a]"):                               `x:6: disallowed_tools: "a" is also in tools`,
		small("tools: ['mcp__***']"):                                               "x:5: tools: expected a glob with at most two *",
		small("tools: [mcp__a]", "deferred_tools: [mcp__b__*]"):                    `x:6: deferred_tools: "mcp__b__*" is not among the tools`,
		small("disallowed_tools: [mcp__a]", "deferred_tools: [mcp__a__b]"):         `x:6: deferred_tools: "mcp__a__b" is not among the tools`,
		small("tools: [a]", "deferred_tools: [b]"):                                 `x:6: deferred_tools: "b" is not among the tools`,
		small("disallowed_tools: [a]", "deferred_tools: [a]"):                      `x:6: deferred_tools: "a" is not among the tools`,
		small("disallowed_tools: [task]", "spawns: [a]"):                           `x:6: spawns: expected "task" among the tools`,
		strings.Replace(small("background: true"), "both", "primary", 1):           "x:5: background: the key requires an agent that can be spawned",
		"---\nname: a:b:c\n---\nYou.":                                              "x:2: name: expected",
		"---\nname: 'a:'\n---\nYou.":                                               "x:2: name: expected",
		small("on_interrupt: stop"):                                                "x:5: on_interrupt: expected resume or fail",
		small("max_iterations: 0"):                                                 "x:5: max_iterations: expected a whole number from 1 to 10000, got 0",
		small("max_iterations: -1"):                                                "x:5: max_iterations: expected a whole number from 1 to 10000, got -1",
		small("max_iterations: 10001"):                                             "x:5: max_iterations: expected a whole number",
		small("max_iterations: 1.5"):                                               "x:5: max_iterations: expected a whole number",
		small("max_iterations: '5'"):                                               "x:5: max_iterations: expected a whole number",
		small() + "\x00":                                                           "x:6: expected text without NUL",
		small() + "\n\xff":                                                         "x:7: expected text in UTF-8",
		small() + long:                                                             "x:1: expected at most 262144 bytes",
		small("#" + long[:maxFront]):                                               "x:1: expected at most 8192 bytes of front matter",
		strings.TrimSuffix(small(), "You are a."):                                  "x:6: expected the prompt",
		"---\nname: a\n---\n \n\t\n":                                               "x:6: expected the prompt",
		"---\nname: a\n---":                                                        "x:3: expected the prompt",
		"---\nname: A\n---\nYou.":                                                  `x:2: name: expected 1 to 64 of a-z, 0-9, _ and -, the first a letter or digit, got "A"`,
		"---\nname: -a\n---\nYou.":                                                 "x:2: name: expected",
		"---\nname: " + long[:65] + "\n---\nYou.":                                  "x:2: name: expected",
		"---\nname: null\n---\nYou.":                                               "x:2: name: expected a string, got nothing; put it in quotes",
		"---\nmode: both\n---\nYou.":                                               "x:2: name: missing",
		"---\nname: a\nmode: both\n---\nYou.":                                      "x:2: description: missing",
		"---\nname: a\ndescription: d\n---\nYou.":                                  "x:2: mode: missing",
		"---\nname: a\nmode: all\n---\nYou.":                                       `x:3: mode: expected primary, subagent or both, got "all"`,
		"---\nname: a\ndescription: ' '\n---\nY":                                   "x:3: description: expected a sentence",
		"---\nname: a\ndescription: \"\\e\"\n---\nY":                               "x:3: description: expected text without control",
		"---\nname: a\ndescription: " + long[:4001] + "\n---\nY":                   "x:3: description: expected at most 4000 bytes",
	} {
		d, err := Parse("x", []byte(text))
		if err == nil {
			t.Errorf("%.200q: parsed to %+v", text, d)
		} else if !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.200q:\n got %v\nwant %s", text, err, want)
		}
	}
}

// What parses has a canonical text that parses to the same.
func FuzzParse(f *testing.F) {
	for _, d := range Builtin().List() {
		f.Add(d.Marshal())
	}
	for _, lines := range []string{
		"model: m", "tools: [a, 'b', \"c\"]", "tools:\n- a\n- b", "spawns: ['a*', \"[^\\u0062]\"]", "max_iterations: 0x10", "timeout: 1h", "on_interrupt: resume", "on_interrupt: fail\ntimeout: 1h1m1.5s", "timeout: 720h0m0.000000001s", "timeout: -1s", "timeout: 1us", "on_interrupt: no", "model: &a b",
		"tools: [[[[", "model: \"\\ud83d\\ude00\\x41\"", "model: |\n  a\n", "disallowed_tools: [a]", "deferred_tools: [a]", "skills: [a, b:c]", "background: true", "reminder: \"a\\tb\"", "...", "%YAML 1.2", "? a", "model: !!binary YQ==",
	} {
		f.Add([]byte(small(lines)))
	}
	f.Add([]byte("---\r\nname: a\r\ndescription: \"a\\\\\\\"\\t\\u2028\\u200d \U0001f600\\n b\"\rmode: both\n--- \n \r\n x\r\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse("fuzz", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz:") || d != nil {
				t.Errorf("%+v, %v", d, err)
			}
			return
		}
		if d.Timeout != 0 && (d.Timeout < minTimeout || d.Timeout > maxTimeout) || d.MaxIterations < 0 || d.MaxIterations > maxIterations {
			t.Errorf("%s and %d iterations are out of bounds", d.Timeout, d.MaxIterations)
		}
		again, err := Parse("fuzz", d.Marshal())
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", d.Marshal(), again, err, d)
		}
	})
}
