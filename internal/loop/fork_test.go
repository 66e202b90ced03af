package loop_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// forking looks, forks three agents in one message and one in a later one, and
// the first of them forks again.
func forking(req *model.Request) (*model.Answer, error) {
	fork := map[string]any{"fork_context": true}
	last := req.Messages[len(req.Messages)-1].Text()
	switch {
	case req.Depth == 0 && turn(req) == 0:
		return calls(use("nothing", nil))
	case req.Depth == 0 && turn(req) == 1:
		return calls(task("a", fork), task("b", fork), use("nothing", nil), task("c", fork))
	case req.Depth == 0 && turn(req) == 2:
		return calls(task("late", fork))
	case req.Depth == 1 && last == "look at a":
		return calls(task("deep", fork))
	default:
		return says("done")
	}
}

// TestForksShareTheirBeginning compares what siblings' models are sent, byte by
// byte: up to the message that started them it is the same, in a later wave too.
func TestForksShareTheirBeginning(t *testing.T) {
	t.Parallel()
	sent := map[string][]string{} // by the prompt: the messages, each as a provider would be sent it
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		if err := sound(req.Messages); err != nil {
			return nil, err
		}
		if last := req.Messages[len(req.Messages)-1]; req.Depth > 0 && last.Role == tree.RoleUser {
			sent[last.Text()] = asSent(t, req)
		}
		return forking(req)
	}))
	start(t, c)
	if said := c.say(); strings.Contains(said, "failed") {
		t.Fatal(said)
	}
	a := sent["look at a"]
	const shared = 4 // the system prompt and the tools, go, the first call, its result
	for _, prompt := range []string{"look at b", "look at c", "look at late", "look at deep"} {
		other := sent[prompt]
		if len(other) < len(a) || !slices.Equal(a[:shared], other[:shared]) {
			t.Errorf("%q is sent\n%s\n\"look at a\"\n%s", prompt, strings.Join(other, "\n"), strings.Join(a, "\n"))
		}
	}
	if len(a) != shared+3 || !strings.Contains(a[shared], "let me see") || strings.Count(a[shared], "subagent_type") != 1 ||
		!strings.Contains(a[shared+1], "You are a sub-agent") {
		t.Errorf("a fork is sent\n%s", strings.Join(a, "\n"))
	}
	late, deep := sent["look at late"], sent["look at deep"]
	if len(late) != shared+5 || strings.Count(late[shared], "subagent_type") != 3 {
		t.Errorf("the later wave is sent\n%s", strings.Join(late, "\n"))
	}
	if !slices.Equal(deep[:len(a)], a) || len(deep) != len(a)+3 {
		t.Errorf("the fork of a fork is sent\n%s\nafter\n%s", strings.Join(deep, "\n"), strings.Join(a, "\n"))
	}
}

// asSent gives what a provider is sent, in pieces: what is common to all, then
// each message.
func asSent(t *testing.T, req *model.Request) []string {
	t.Helper()
	piece := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	pieces := []string{piece([]any{req.Model, req.System, req.Tools})}
	for _, m := range req.Messages {
		pieces = append(pieces, piece([]any{m.Role, m.Blocks}))
	}
	return pieces
}
