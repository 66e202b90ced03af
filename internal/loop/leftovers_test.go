package loop_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestLeaves: what a run leaves behind is said at the end of its answer, and of its
// failure; what has no room or is no text stays out. So it is with an orchestrator that doesn't
// take it apart.
func TestLeaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left   string
		blocks []tree.Block
		want   string
	}{
		"after a text":    {"[left\x00]", []tree.Block{tree.Text{Text: "done"}}, "done\n\n[left\ufffd]"},
		"nothing":         {"", []tree.Block{tree.Text{Text: "done"}}, "done"},
		"after a thought": {"[left]", []tree.Block{tree.Text{Text: "done"}, tree.Thinking{Text: "hm"}}, "done\n[left]"},
		"no room":         {strings.Repeat("x", 2000), []tree.Block{tree.Text{Text: "done"}}, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, takes := range []bool{true, false} {
				core := newCore(t, answers(func(*model.Request) (*model.Answer, error) {
					return &model.Answer{Blocks: c.blocks}, nil
				}))
				core.prepare = func(r *loop.Run) {
					r.MaxPartBytes, r.TakesLeftovers = 1000, takes
					r.Leftovers = func(context.Context) string { return c.left }
				}
				limits := tree.DefaultLimits()
				limits.PartBytes = 1000
				core.must(tree.CreateSession{
					ID: tree.SessionID(core.newID()), Tenant: "t", Agent: core.agents["root"], Limits: limits,
					Message: []tree.Block{tree.Text{Text: "go"}},
				})
				core.play(t.Context())
				messages := core.transcript(core.view.Changes().Session.Root)
				if got := messages[len(messages)-1].Text(); got != c.want {
					t.Errorf("taken apart: %t: the answer is %q, want %q", takes, got, c.want)
				}
			}
		})
	}
}

// TestLeavesOfAnAnswerThatStands: a run answers while a child is at work, which spends the budget.
// What is left is said of the end of the run, not of the answer that it has only parked with.
func TestLeavesOfAnAnswerThatStands(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string]loop.Hooks{
		"without hooks": nil, "with hooks": gate{starts: &atomic.Int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
				switch {
				case req.Depth == 0:
					return calls(task("lead", nil))
				case req.Depth == 1 && turn(req) == 0:
					return calls(task("hand", map[string]any{"background": true}))
				}
				return says("42")
			}))
			looks := 0
			c.hooks, c.prepare = hooks, func(r *loop.Run) {
				r.Leftovers = func(context.Context) string {
					if r.Depth != 1 {
						return ""
					}
					looks++
					return fmt.Sprintf("[left, look %d]", looks)
				}
			}
			c.must(tree.CreateSession{
				ID: tree.SessionID(c.newID()), Tenant: "t", Agent: c.agents["root"], Limits: tree.DefaultLimits(),
				Budget: tree.Budget{ModelCalls: 4}, Message: []tree.Block{tree.Text{Text: "go"}},
			})
			c.play(t.Context())
			said := c.say()
			if want := `"status":"completed","summary":"42\n\n[left, look 2]"`; !strings.Contains(said, want) {
				t.Errorf("%q is not in\n%s", want, said)
			}
			if strings.Contains(said, "look 1") {
				t.Errorf("what is said of the answer is said of the end too:\n%s", said)
			}
		})
	}
}

// TestEmptyAnswers: nor is who reads one left to guess whether there was any.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	for name, blocks := range map[string][]tree.Block{
		"no blocks":      nil,
		"blank text":     {tree.Text{Text: " \n"}},
		"reasoning only": {tree.Thinking{Text: "hm", Signature: "s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core := newCore(t, answers(func(*model.Request) (*model.Answer, error) {
				return &model.Answer{Blocks: blocks, Stop: tree.StopEndTurn}, nil
			}))
			start(t, core)
			messages := core.transcript(core.view.Changes().Session.Root)
			if last := messages[len(messages)-1]; strings.TrimSpace(last.Text()) != "[The model gave an empty answer.]" {
				t.Errorf("the answer is %q", last.Text())
			}
		})
	}
}

// TestUnfinishedAnswers: who reads an answer as a result is told that it is not whole.
func TestUnfinishedAnswers(t *testing.T) {
	t.Parallel()
	for stop, want := range map[tree.StopReason]string{
		tree.StopEndTurn:   "first",
		tree.StopMaxTokens: "first\n\n[The answer was cut at the limit of its length.]",
		tree.StopRefusal:   "first\n\n[The model declined to answer. What comes after that is likely to be declined too: go on from before it, with a branch.]",
	} {
		core := newCore(t, answers(func(*model.Request) (*model.Answer, error) {
			return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "first"}}, Stop: stop}, nil
		}))
		start(t, core)
		core.play(t.Context())
		messages := core.transcript(core.view.Changes().Session.Root)
		if last := messages[len(messages)-1]; last.Text() != want || last.Stop != stop {
			t.Errorf("the answer is %q, stopped for %d, want %q, %d", last.Text(), last.Stop, want, stop)
		}
	}
}
