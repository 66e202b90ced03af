package hook_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := hook.Parse("hooks.yaml", []byte(`
# ours
hooks:
  - name: rules
    event: SubagentStart
    matcher: review-*
    command: [cat, "RULES.md"]
    timeout: 5s
  - {name: gate, event: SubagentStop, url: "https://x.example/gate"}
`))
	want := []hook.Spec{
		{Name: "rules", Event: tree.SubagentStart, Matcher: "review-*", Command: []string{"cat", "RULES.md"}, Timeout: 5 * time.Second},
		{Name: "gate", Event: tree.SubagentStop, URL: "https://x.example/gate"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	one := func(lines ...string) string {
		return "hooks:\n- name: a\n  event: SubagentStop\n  " + strings.Join(lines, "\n  ") + "\n"
	}
	for text, want := range map[string]string{
		"":                                   "x:1: expected",
		"hooks: [":                           "x:1: sequence end token ']' not found",
		"hooks:":                             "x:1: hooks: expected a list",
		"hook: []":                           "x:1: unknown key hook, expected one of hooks",
		"- a":                                "x:1: expected a mapping",
		"hooks: []\n---\nhooks: []":          "x:1: expected one YAML document",
		"hooks:\n- a":                        "x:2: expected a mapping with the keys name, event",
		"hooks:\n- event: SubagentStop":      "x:2: name: missing",
		"hooks:\n- name: a\n  url: http://a": "x:2: event: missing",
		one("url: http://a", "comand: [a]"):  "x:5: unknown key comand, expected one of name, event, command",
		one("timeout: 5s"):                   "x:2: expected either a command or a url",
		one("url: http://a", "command: [a]"): "x:2: expected either a command or a url",
		one("command: rm -rf"):               "x:4: command: expected a list",
		one("command: [5]"):                  "x:4: command: expected strings",
		one("command: ['']"):                 "x:4: command: expected a program",
		one("command: []"):                   "x:4: command: expected a program",
		one("url: ftp://a"):                  "x:4: url: expected a URL",
		one("url: http://u:p@a/"):            "x:4: url: expected a URL",
		one("url: 'http:///x'"):              "x:4: url: expected a URL",
		one("url: http://a", "timeout: 5"):   "x:5: timeout: expected a string",
		one("url: http://a", "timeout: 1ms"): "x:5: timeout: expected a duration from 100ms to 10m0s",
		one("url: http://a", "matcher: '['"): "x:5: matcher: expected a glob",
		one("url: &a http://a"):              "x:4: url: expected a string",
		"hooks:\n- name: a\n  event: Stop\n  url: http://a":                                      "x:3: event: expected SubagentStart or SubagentStop",
		one("url: http://a") + "- name: a\n  event: SubagentStop\n  url: http://a":               `x:5: name: "a" is given twice`,
		"hooks: [{name: " + strings.Repeat("a", 65) + ", event: SubagentStop, url: 'http://a'}]": "x:1: name: expected a name",
		"hooks:\n\xff": "x:1: expected text in UTF-8",
	} {
		specs, err := hook.Parse("x", []byte(text))
		if err == nil {
			t.Errorf("%q: parsed to %+v", text, specs)
		} else if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}
