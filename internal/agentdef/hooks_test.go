package agentdef

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestHooksOfADefinition(t *testing.T) {
	t.Parallel()
	got, err := Parse("x.md", []byte(small(
		"hooks:", "  - name: gate", "    event: SubagentStop", "    command: [go, test, ./...]", "    timeout: 2m",
		"  - {name: 'r\"u', event: SubagentStart, url: 'http://rules/'}", "on_complete: https://x.example/ended")))
	if err != nil {
		t.Fatal(err)
	}
	want := []hook.Spec{
		{Name: "gate", Event: tree.SubagentStop, Command: []string{"go", "test", "./..."}, Timeout: 2 * time.Minute},
		{Name: `r"u`, Event: tree.SubagentStart, URL: "http://rules/"},
	}
	if !reflect.DeepEqual(got.Hooks, want) || got.OnComplete != "https://x.example/ended" {
		t.Errorf("got %+v, %q", got.Hooks, got.OnComplete)
	}
	const canonical = `hooks: [{name: "gate", event: "SubagentStop", command: ["go", "test", "./..."], timeout: "2m0s"}, ` +
		`{name: "r\"u", event: "SubagentStart", url: "http://rules/"}]` + "\n" + `on_complete: "https://x.example/ended"` + "\n"
	if !strings.Contains(string(got.Marshal()), canonical) {
		t.Errorf("got %s", got.Marshal())
	}
	if again, err := Parse("x.md", got.Marshal()); err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("again: %+v, %v", again, err)
	}
	for _, other := range []string{small(), small("on_complete: https://x.example/ended")} {
		if d, err := Parse("x", []byte(other)); err != nil || d.Version == got.Version {
			t.Errorf("the same version without hooks, %v", err)
		}
	}
}

func TestErrorsInHooks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		small("hooks: []"): "x:5: hooks: expected at least one",
		small("hooks: a"):  "x:5: hooks: expected a list",
		small("hooks:", "- name: a", "  event: Stop", "  url: http://a"):                         "x:7: event: expected SubagentStart or SubagentStop",
		small("hooks:", "- name: a", "  event: SubagentStop", "  matcher: b", "  url: http://a"): "x:8: unknown key matcher, expected one of name, event, command, url, timeout",
		small("on_complete: a"):   "x:5: on_complete: expected a URL",
		small("on_complete: [a]"): "x:5: on_complete: expected a string",
	} {
		if d, err := Parse("x", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n got %+v, %v\nwant %s", text, d, err, want)
		}
	}
}
