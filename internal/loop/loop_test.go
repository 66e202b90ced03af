package loop_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// answers is a model that is a function of what it is told.
type answers func(req *model.Request) (*model.Answer, error)

func (a answers) Generate(_ context.Context, req *model.Request, _ func(model.Delta)) (*model.Answer, error) {
	return a(req)
}

func says(text string) (*model.Answer, error) {
	return &model.Answer{Blocks: []tree.Block{tree.Text{Text: text}}, Usage: tree.Usage{Input: 3, Output: 2}}, nil
}

func calls(uses ...tree.ToolUse) (*model.Answer, error) {
	a := &model.Answer{Usage: tree.Usage{Input: 5, Output: 7}}
	for i, u := range uses {
		u.ProviderID = "same" // providers repeat their ids
		if i == 0 {
			a.Blocks = append(a.Blocks, tree.Text{Text: "let me see"})
		}
		a.Blocks = append(a.Blocks, u)
	}
	return a, nil
}

func use(name string, input map[string]any) tree.ToolUse {
	data, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return tree.ToolUse{Name: name, Input: data}
}

func task(description string, more map[string]any) tree.ToolUse {
	input := map[string]any{"description": description, "prompt": "look at " + description, "subagent_type": "scout"}
	for k, v := range more {
		input[k] = v
	}
	return use("task", input)
}

// turn counts the answers a conversation has.
func turn(req *model.Request) int {
	n := 0
	for _, m := range req.Messages {
		if m.Role == tree.RoleAssistant {
			n++
		}
	}
	return n
}

// counter is a tool with an effect that can be counted.
type counter struct{ runs *atomic.Int64 }

func (counter) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "deploy", Schema: json.RawMessage(`{"type":"object"}`)}
}
func (counter) Effect() tool.Effect { return tool.EffectLasting }

func (counter) Guard() tool.Guard { return tool.Guard{Access: policy.AccessRead} }
func (c counter) Call(context.Context, tool.Call) tool.Outcome {
	c.runs.Add(1)
	return tool.Done{Text: "deployed"}
}

func start(t *testing.T, c *core) {
	t.Helper()
	c.must(tree.CreateSession{
		ID: tree.SessionID(c.newID()), Tenant: "t", Agent: c.agents["root"], Limits: tree.DefaultLimits(),
		Message: []tree.Block{tree.Text{Text: "go"}},
	})
	c.play(t.Context())
}

// survey is a tree with all that a run can do: own tools, parallel children, a
// deeper child, a background child, a wait for it, and refusals.
func survey(req *model.Request) (*model.Answer, error) {
	switch prompt := req.Messages[0].Text(); {
	case req.Depth == 0 && turn(req) == 0:
		return calls(task("north", nil), use("deploy", nil), task("south", nil),
			task("sky", map[string]any{"run_in_background": true}), use("nothing", nil),
			task("void", map[string]any{"subagent_type": "nobody"}))
	case req.Depth == 0 && turn(req) == 1:
		id := ""
		for _, b := range req.Messages[2].Blocks {
			if r := b.(tree.ToolResult); strings.Contains(r.Text, "async_launched") {
				var launched struct {
					ID string `json:"task_id"`
				}
				if err := json.Unmarshal([]byte(r.Text), &launched); err != nil {
					return nil, err
				}
				id = launched.ID
			}
		}
		return calls(use("task_output", map[string]any{"task_id": id}), use("deploy", nil))
	case req.Depth == 0:
		return says("all done")
	case strings.HasSuffix(prompt, "north") && turn(req) == 0:
		return calls(task("deep", nil), use("deploy", nil))
	default:
		return says("saw " + prompt)
	}
}

func TestATreeRunsToItsEnd(t *testing.T) {
	t.Parallel()
	runs := &atomic.Int64{}
	c := newCore(t, answers(survey), counter{runs})
	start(t, c)
	said := c.say()
	for _, want := range []string{
		"root: completed", "root/north: completed", "root/north/deep: completed", "root/south: completed",
		"root/sky: completed", "all done", "deployed", "async_launched", `there is no tool "nothing"`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if runs.Load() != 3 {
		t.Errorf("the tool ran %d times, want 3", runs.Load())
	}
}

// TestAWorkerMayDieAnywhere kills the worker at each request in turn, before and
// after the request is stored. The tree must end as if nothing had happened,
// but for calls whose outcome nobody can know; those never run twice.
func TestAWorkerMayDieAnywhere(t *testing.T) {
	t.Parallel()
	undisturbed := newCore(t, answers(survey), counter{&atomic.Int64{}})
	start(t, undisturbed)
	want, total := undisturbed.say(), undisturbed.requests
	if total < 20 {
		t.Fatalf("only %d requests", total)
	}
	unknown := 0
	for n := 1; n <= total; n++ {
		for _, before := range []bool{true, false} {
			runs := &atomic.Int64{}
			c := newCore(t, answers(survey), counter{runs})
			c.lose = func(i int) (bool, bool) { return i == n && before, i == n && !before }
			start(t, c)
			got := c.say()
			switch told := strings.Count(got, "outcome unknown"); {
			case told > 1:
				t.Errorf("request %d, before %t: %d outcomes are unknown", n, before, told)
			case told == 1:
				unknown++
				got = replaceUnknown(got)
			}
			if runs.Load() > 3 {
				t.Errorf("request %d, before %t: the tool ran %d times, want at most 3", n, before, runs.Load())
			}
			if sorted(got) != sorted(want) {
				t.Errorf("request %d, before %t:\n got %s\nwant %s", n, before, got, want)
			}
		}
	}
	if unknown == 0 {
		t.Error("no worker died between a tool's start and its result")
	}
}

func replaceUnknown(said string) string {
	lines := strings.Split(said, "\n")
	for i, line := range lines {
		if at := strings.Index(line, "outcome unknown"); at >= 0 {
			lines[i] = line[:at] + "deployed"
		}
	}
	return strings.Join(lines, "\n")
}

// sorted forgets the order of lines: when the news of a background child comes in
// depends on who was faster.
func sorted(said string) string {
	lines := strings.Split(said, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestIterationsAreCapped(t *testing.T) {
	t.Parallel()
	asked := 0
	c := newCore(t, answers(func(*model.Request) (*model.Answer, error) {
		asked++
		return calls(use("nothing", nil))
	}))
	c.agents["root"].MaxIterations = 4
	start(t, c)
	if asked != 4 {
		t.Errorf("the model was asked %d times, want 4", asked)
	}
	if said := c.say(); !strings.Contains(said, "root: failed MAX_ITERATIONS") {
		t.Error(said)
	}
}

// TestTheLastCallIsAnnounced: a model that heeds what it is reminded of answers with what it
// has instead of letting the run fail.
func TestTheLastCallIsAnnounced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		most     int
		reminder string
		want     []string // beginnings of what it is reminded of
	}{
		"several calls":   {3, "", []string{"", "", "This is the last time"}},
		"beside its own":  {2, "Mind the gap.", []string{"Mind the gap.", "Mind the gap.\n\nThis is the last time"}},
		"one call in all": {1, "", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reminded []string
			c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
				reminded = append(reminded, req.Reminder)
				if strings.Contains(req.Reminder, "last time") {
					return says("as far as I came")
				}
				return calls(use("nothing", nil))
			}))
			c.agents["root"].MaxIterations = tt.most
			c.prepare = func(r *loop.Run) { r.Reminder = tt.reminder }
			start(t, c)
			if !slices.EqualFunc(reminded, tt.want, func(got, want string) bool {
				return strings.HasPrefix(got, want) && (want != "" || got == "")
			}) {
				t.Errorf("reminded of %q, want %q", reminded, tt.want)
			}
			if completed := strings.Contains(c.say(), "root: completed"); completed != (tt.most > 1) {
				t.Error(c.say())
			}
		})
	}
}

// TestAMessageAtTheEndOfAnAllowanceIsHeard sends one to a root during the last call that it may
// make: the model hears it in the next run.
func TestAMessageAtTheEndOfAnAllowanceIsHeard(t *testing.T) {
	t.Parallel()
	asked := 0
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		if asked++; asked == 1 {
			return calls(use("nothing", nil))
		}
		return says("heard: " + req.Messages[len(req.Messages)-1].Text())
	}))
	c.agents["root"].MaxIterations = 1
	sent := false
	c.prepare = func(*loop.Run) {
		if !sent {
			sent = true
			c.must(tree.Send{Message: []tree.Block{tree.Text{Text: "Also the docs, please."}}})
		}
	}
	start(t, c)
	if said := c.say(); !strings.Contains(said, "heard: Also the docs, please.") {
		t.Error(said)
	}
}

func TestAFailingModelFailsTheRun(t *testing.T) {
	t.Parallel()
	c := newCore(t, answers(func(*model.Request) (*model.Answer, error) { return nil, errModel }))
	start(t, c)
	if said := c.say(); !strings.Contains(said, "root: failed PROVIDER_ERROR") {
		t.Error(said)
	}
}

func TestAnAnswerOverTheBoundIsRefused(t *testing.T) {
	t.Parallel()
	c := newCore(t, answers(func(*model.Request) (*model.Answer, error) {
		return says(strings.Repeat("x", 2<<20))
	}))
	start(t, c)
	if said := c.say(); !strings.Contains(said, "root: failed PROVIDER_ERROR") {
		t.Error(said)
	}
}

type panics struct{}

func (panics) Spec() model.ToolSpec                         { return model.ToolSpec{Name: "boom"} }
func (panics) Effect() tool.Effect                          { return tool.EffectNone }
func (panics) Guard() tool.Guard                            { return tool.Guard{Access: policy.AccessRead} }
func (panics) Call(context.Context, tool.Call) tool.Outcome { panic("boom") }

func TestAPanickingToolIsAResult(t *testing.T) {
	t.Parallel()
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		if turn(req) == 0 {
			return calls(use("boom", nil))
		}
		return says("went on")
	}), panics{})
	start(t, c)
	if said := c.say(); !strings.Contains(said, "failed inside") || !strings.Contains(said, "went on") {
		t.Error(said)
	}
}
