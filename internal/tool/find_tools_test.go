package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
)

// spare is a tool that does nothing.
type spare struct{ name, about string }

func (s spare) Spec() model.ToolSpec {
	return model.ToolSpec{Name: s.name, Description: s.about, Schema: json.RawMessage(`{"type":"object"}`)}
}
func (spare) Effect() Effect                     { return EffectNone }
func (spare) Call(context.Context, Call) Outcome { return Done{Text: "done"} }

func specNames(tools []Tool) string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Spec().Name)
	}
	return strings.Join(names, " ")
}

// answers holds what a tool answers against what it should contain, or begin with
// if it is an error.
func answers(t *testing.T, tool Tool, cases map[string]string) {
	t.Helper()
	for input, want := range cases {
		done, ok := tool.Call(t.Context(), Call{Input: []byte(input)}).(Done)
		text := done.Text
		if done.IsError {
			text = "(error) " + text
		}
		if !ok || !strings.Contains(text, want) || done.IsError != strings.HasPrefix(want, "(error) ") {
			t.Errorf("%s:\n got %s\nwant %s", input, text, want)
		}
	}
}

func TestDefer(t *testing.T) {
	t.Parallel()
	some := append(Builtin(), spare{"send_mail", "sends"}, spare{"read_mail", "reads"})
	first, deferred := Defer(some, nil, true)
	if len(first) != len(some) || len(deferred) != 0 {
		t.Errorf("nothing is deferred, yet: %s; %s", specNames(first), specNames(deferred))
	}
	first, deferred = Defer(some, []string{"send_mail", "grep", "nobody"}, true)
	if specNames(deferred) != "grep send_mail" || !strings.HasSuffix(specNames(first), "read_mail find_tools") {
		t.Errorf("named: %s; %s", specNames(first), specNames(deferred))
	}
	servers := append(Builtin(), spare{"mcp__mail__send", "sends"}, spare{"mcp__mail__read", "reads"}, spare{"mcp__git__push", "pushes"})
	for entry, want := range map[string]string{
		"mcp__mail": "mcp__mail__send mcp__mail__read", "mcp__mail__s*": "mcp__mail__send", "mcp__*": "mcp__mail__send mcp__mail__read mcp__git__push",
	} {
		if _, deferred = Defer(servers, []string{entry}, true); specNames(deferred) != want {
			t.Errorf("%s: %s, want %s", entry, specNames(deferred), want)
		}
	}
	if best := newFindTool(servers[7:]).(findTool).matching("mcp__mail__*", 2); len(best) != 2 || best[0].Name != "mcp__mail__send" || best[1].Name != "mcp__mail__read" {
		t.Errorf("looked for by a glob: %v", best)
	}
	var many []Tool
	own := slices.DeleteFunc(Names(), func(name string) bool { return name == FindTool }) // it comes by itself
	for _, name := range own {
		many = append(many, spare{name, "comes with Coppice"})
	}
	for i := range MaxInitialTools {
		many = append(many, spare{fmt.Sprint("spare_", i), "does nothing"})
	}
	first, deferred = Defer(many, nil, true)
	if specNames(first) != strings.Join(own, " ")+" find_tools" || len(deferred) != MaxInitialTools {
		t.Errorf("too many: %s; %d", specNames(first), len(deferred))
	}
	first, deferred = Defer(many, nil, false)
	if specNames(first) != strings.Join(own, " ") || len(deferred) != 0 {
		t.Errorf("none may be found: %s; %d", specNames(first), len(deferred))
	}
}

func TestFindTools(t *testing.T) {
	t.Parallel()
	deferred := []Tool{
		spare{"mail_send", "Sends a letter to somebody."}, spare{"mail_read", "Shows letters."},
		spare{"calendar", "Shows what is on; can send an invitation."}, spare{"huge", "huge " + strings.Repeat("x", maxOutput)},
	}
	find := newFindTool(deferred)
	if about := find.Spec().Description; !strings.Contains(about, "mail_send, mail_read, calendar, huge") {
		t.Errorf("the description names no tools: %s", about)
	}
	for query, want := range map[string]string{
		`{"query":"send a letter"}`:            "mail_send calendar",
		`{"query":"MAIL"}`:                     "mail_send mail_read",
		`{"query":"mail_read"}`:                "mail_read mail_send",
		`{"query":"mail_read","limit":1}`:      "mail_read",
		`{"query":"cal"}`:                      "calendar",
		`{"query":"nothing of the kind"}`:      "",
		`{"query":"?!"}`:                       "",
		`{"query":"huge calendar", "limit":2}`: "calendar huge",
	} {
		done := find.Call(t.Context(), Call{Input: json.RawMessage(query)}).(Done)
		if got := strings.Join(find.Found(done.Text), " "); got != want || done.IsError || len(done.Text) > maxOutput {
			t.Errorf("%s: %q, want %q: %.200s", query, got, want, done.Text)
		}
	}
	answers(t, find, map[string]string{
		`{"query":"nobody"}`:             `"note":"no tool fits; use other words`,
		`{"query":"letters","limit":21}`: "(error) wrong input: limit: expected a whole number from 1 to 20",
		`{}`:                             "(error) wrong input: query: missing",
	})
	if got := find.Found("cut: {"); slices.Contains(got, "mail_send") || len(got) > 0 {
		t.Errorf("a broken result hands over %v", got)
	}
}
