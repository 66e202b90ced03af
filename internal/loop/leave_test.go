package loop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestLeaves: what a run leaves behind is said at the end of its answer, and of its
// failure; what has no room or is no text stays out.
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
			core := newCore(t, answers(func(*model.Request) (*model.Answer, error) {
				return &model.Answer{Blocks: c.blocks}, nil
			}))
			core.prepare = func(r *loop.Run) {
				r.MaxPart = 1000
				r.Leaves = func(context.Context) string { return c.left }
			}
			start(t, core)
			core.play(t.Context())
			messages := core.transcript(core.view.Changes().Session.Root)
			if got := messages[len(messages)-1].Text(); got != c.want {
				t.Errorf("the answer is %q, want %q", got, c.want)
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
