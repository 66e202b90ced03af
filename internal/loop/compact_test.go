package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// conversation is what a task's model sees.
func (c *core) conversation(id tree.TaskID) []tree.Message {
	var chain []transcript.Link
	for {
		t := c.view.Changes().Tasks[id]
		chain = append(chain, transcript.Link{
			Task: id, Description: t.Description, Base: t.Base, Messages: c.transcript(id),
		})
		if !t.Base.Inherits() {
			return transcript.Conversation(chain)
		}
		id = t.Base.Task
	}
}

func (j *journal) Compact(upTo int, summary *tree.Message) loop.Pending {
	return j.request(func(f tree.From) tree.Command { return tree.Compact{From: f, UpTo: upTo, Summary: *summary} })
}

// asksForSummary reports whether a model is asked to sum up.
func asksForSummary(req *model.Request) bool {
	return strings.Contains(req.Messages[len(req.Messages)-1].Text(), "sum up the conversation")
}

// sound reports what no provider would take: results without their calls, calls
// without their results, or a conversation that does not begin with a user.
func sound(messages []tree.Message) error {
	var asked *tree.Message
	for i := range messages {
		m := &messages[i]
		open := asked != nil && len(transcript.Calls(asked)) > 0
		switch {
		case i == 0 && m.Role != tree.RoleUser:
			return errors.New("it does not begin with a user message")
		case open != (m.Role == tree.RoleTool):
			return fmt.Errorf("message %d: results belong after calls", i+1)
		case open && len(m.Blocks) != len(transcript.Calls(asked)):
			return fmt.Errorf("message %d: %d results of %d calls", i+1, len(m.Blocks), len(transcript.Calls(asked)))
		}
		for _, b := range m.Blocks {
			if r, ok := b.(tree.ToolResult); ok {
				if use, ok := asked.Blocks[r.Block].(tree.ToolUse); !ok || use.ProviderID != r.ProviderID {
					return fmt.Errorf("message %d: a result belongs to no call", i+1)
				}
			}
		}
		asked = m
	}
	return nil
}

// worker calls a tool ten times and is done; each message counts 10 tokens.
func worker(req *model.Request) (*model.Answer, error) {
	if err := sound(req.Messages); err != nil {
		return nil, err
	}
	size := tree.Usage{Input: int64(10 * len(req.Messages))}
	if asksForSummary(req) {
		return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "worked on " + lastCount(req)}}, Usage: size}, nil
	}
	done := lastCount(req)
	if done == "10" {
		return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "done"}}, Usage: size}, nil
	}
	next := "1"
	if done != "" {
		n := 0
		if _, err := fmt.Sscan(done, &n); err != nil {
			return nil, err
		}
		next = fmt.Sprint(n + 1)
	}
	a, err := calls(use("nothing", map[string]any{"n": next}), use("nothing", map[string]any{"n": next}))
	a.Usage = size
	return a, err
}

// lastCount is the number that the conversation has come to, in a call or a summary.
func lastCount(req *model.Request) string {
	count := ""
	for _, m := range req.Messages {
		if _, text, ok := strings.Cut(m.Text(), "worked on "); ok {
			count = text
		}
		for _, b := range m.Blocks {
			var input struct{ N string }
			if u, ok := b.(tree.ToolUse); ok && json.Unmarshal(u.Input, &input) == nil {
				count = input.N
			}
		}
	}
	return count
}

func TestALongConversationIsSummedUp(t *testing.T) {
	t.Parallel()
	longest := 0
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		longest = max(longest, len(req.Messages))
		return worker(req)
	}))
	c.compactAt = 70
	start(t, c)
	said := c.say()
	if !strings.Contains(said, "root: completed") || strings.Count(said, "text What came before was summed up") < 2 {
		t.Errorf("the conversation was not summed up:\n%s", said)
	}
	if got := strings.Count(said, `there is no tool "nothing"`); got != 20 {
		t.Errorf("the transcript keeps %d results of 20", got)
	}
	if longest > 10 {
		t.Errorf("a model saw %d messages", longest)
	}
}

// TestWithoutFiguresItIsSummedUpToo: of a server that counts no tokens the text counts.
func TestWithoutFiguresItIsSummedUpToo(t *testing.T) {
	t.Parallel()
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		a, err := worker(req)
		if a != nil {
			a.Usage = tree.Usage{}
		}
		return a, err
	}))
	c.compactAt = 70
	start(t, c)
	if said := c.say(); !strings.Contains(said, "root: completed") || !strings.Contains(said, "text What came before was summed up") {
		t.Errorf("the conversation was not summed up:\n%s", said)
	}
}

// TestACrashRepeatsOneSummary kills the worker at each request in turn: the tree
// ends the same, and at most one model call is made again.
func TestACrashRepeatsOneSummary(t *testing.T) {
	t.Parallel()
	asked := 0
	counted := answers(func(req *model.Request) (*model.Answer, error) {
		asked++
		return worker(req)
	})
	undisturbed := newCore(t, counted)
	undisturbed.compactAt = 70
	start(t, undisturbed)
	want, total, once := undisturbed.say(), undisturbed.requests, asked
	for n := 1; n <= total; n++ {
		for _, before := range []bool{true, false} {
			asked = 0
			c := newCore(t, counted)
			c.compactAt = 70
			c.lose = func(i int) (bool, bool) { return i == n && before, i == n && !before }
			start(t, c)
			if got := c.say(); got != want {
				t.Errorf("request %d, before %t:\n got %s\nwant %s", n, before, got, want)
			}
			if asked > once+1 {
				t.Errorf("request %d, before %t: %d model calls instead of %d", n, before, asked, once)
			}
		}
	}
}

func TestWithoutASummaryTheRunGoesOn(t *testing.T) {
	t.Parallel()
	text, call := tree.Text{Text: "let me see"}, use("nothing", nil)
	for name, answer := range map[string]*model.Answer{
		"error":            nil,
		"no text":          {Stop: tree.StopEndTurn},
		"a call alone":     {Stop: tree.StopToolUse, Blocks: []tree.Block{call}},
		"text with a call": {Stop: tree.StopToolUse, Blocks: []tree.Block{text, call}},
		"a call unsaid":    {Stop: tree.StopEndTurn, Blocks: []tree.Block{text, call}},
		"declined":         {Stop: tree.StopRefusal, Blocks: []tree.Block{text}},
		"cut":              {Stop: tree.StopMaxTokens, Blocks: []tree.Block{text}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
				if asksForSummary(req) {
					tries++
					if answer == nil {
						return nil, errModel
					}
					return answer, nil
				}
				return worker(req)
			}))
			c.compactAt = 70
			start(t, c)
			if said := c.say(); !strings.Contains(said, "root: completed") || strings.Contains(said, "was summed up") || tries != 1 {
				t.Errorf("after %d tries:\n%s", tries, said)
			}
		})
	}
}

// reader is a tool whose result has so many bytes.
type reader int

func (reader) Spec() model.ToolSpec { return model.ToolSpec{Name: "reader"} }
func (reader) Effect() tool.Effect  { return tool.EffectNone }
func (reader) Guard() tool.Guard    { return tool.Guard{Access: policy.AccessRead} }
func (r reader) Call(context.Context, tool.Call) tool.Outcome {
	return tool.Done{Text: strings.Repeat("x", int(r))}
}

// TestWhenItIsSummedUp: if nothing else is said, the window of the model that answers counts,
// and results that have come since its last answer count with it.
func TestWhenItIsSummedUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		named, answers string
		tokens         int64
		result         int
		summed         bool
	}{
		"a narrow model answers":         {"", "gpt-4o", 110_000, 10, true},
		"a wide model answers":           {"", "claude-x", 110_000, 10, false},
		"a wide model is named":          {"claude-x", "gpt-4o", 110_000, 10, false},
		"a long result has come":         {"claude-x", "claude-x", 110_000, 300_000, true},
		"what is not known has a window": {"", "", 170_000, 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			summed := false
			core := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
				if err := sound(req.Messages); err != nil {
					return nil, err
				}
				switch {
				case asksForSummary(req):
					summed = true
				case turn(req) <= 1 && !summed:
					a, err := calls(use("reader", nil))
					a.Model, a.Usage = c.answers, tree.Usage{Input: c.tokens}
					return a, err
				}
				return says("done")
			}), reader(c.result))
			core.prepare = func(r *loop.Run) { r.CanCompact, r.ModelName = true, c.named }
			start(t, core)
			if said := core.say(); !strings.Contains(said, "root: completed") || summed != c.summed {
				t.Errorf("summed up: %t, want %t: %.500s", summed, c.summed, said)
			}
		})
	}
}

// TestAShortBeginningIsNotSummedUp: if the last results are what is long, a summary of the task alone
// would save nothing, and cost a model call. It is made once there is more to sum up.
func TestAShortBeginningIsNotSummedUp(t *testing.T) {
	t.Parallel()
	var asked []int // at which turns a summary was asked for
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		switch n := turn(req); {
		case asksForSummary(req):
			asked = append(asked, n)
			return says("what was read")
		case n < 2 && len(asked) == 0:
			return calls(use("reader", nil))
		}
		return says("done")
	}), reader(100_000))
	c.compactAt = 10_000
	start(t, c)
	if said := c.say(); !strings.Contains(said, "root: completed") || !slices.Equal(asked, []int{1}) {
		t.Errorf("summaries were asked for at %d: %.300s", asked, said)
	}
}

// TestARefusalForLengthIsAnOccasionToSumUp: a model may take less than is thought of it. It is
// asked again as long as there is something to sum up.
func TestARefusalForLengthIsAnOccasionToSumUp(t *testing.T) {
	t.Parallel()
	tooLong := &model.Error{Kind: model.ErrorTooLong, Err: errors.New("the model takes no more")}
	for name, test := range map[string]struct {
		takes, sums int // messages: with each request, and with one for a summary
		compacts    bool
		asked       int // for summaries
		want        []string
	}{
		"a summary helps":     {6, 6, true, 4, []string{"root: completed", "text What came before was summed up"}},
		"not even a summary":  {6, 3, true, 1, []string{"root: failed PROVIDER_ERROR"}},
		"nothing to sum up":   {0, 0, true, 0, []string{"root: failed PROVIDER_ERROR"}},
		"nobody can store it": {6, 6, false, 0, []string{"root: failed PROVIDER_ERROR"}},
		"the rest is as long": {2, 6, true, 1, []string{"root: failed PROVIDER_ERROR", "text What came before was summed up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
				takes := test.takes
				if asksForSummary(req) {
					asked++
					takes = test.sums
				}
				if len(req.Messages) > takes {
					return nil, tooLong
				}
				return worker(req)
			}))
			c.prepare = func(r *loop.Run) { r.CanCompact = test.compacts }
			start(t, c)
			said := c.say()
			for _, want := range test.want {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in:\n%s", want, said)
				}
			}
			runs := c.view.Changes().Runs
			detail := runs[len(runs)-1].Detail
			if failed := strings.Contains(said, "failed"); failed != strings.Contains(detail, "the model takes no more\n") || failed != strings.Contains(detail, "compact_at") {
				t.Errorf("it ended with %q", detail)
			}
			if asked != test.asked {
				t.Errorf("asked for %d summaries, want %d", asked, test.asked)
			}
		})
	}
}
