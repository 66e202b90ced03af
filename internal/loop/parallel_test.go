package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// turnstile is a tool whose calls take until it opens.
type turnstile struct {
	effect tool.Effect
	open   chan struct{}

	mu      sync.Mutex
	running int
	begun   []string // the inputs of the calls that have begun
}

func (*turnstile) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "turnstile", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (g *turnstile) Effect() tool.Effect { return g.effect }

func (*turnstile) Guard() tool.Guard { return counter{}.Guard() }

func (g *turnstile) Call(ctx context.Context, call tool.Call) tool.Outcome {
	g.mu.Lock()
	g.running++
	g.begun = append(g.begun, string(call.Input))
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.running--
	g.mu.Unlock()
	return tool.Done{Text: "through with " + string(call.Input)}
}

// state returns how many calls run, and how many have begun.
func (g *turnstile) state() (running, begun int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, len(g.begun)
}

// manyCalls gives a session whose root calls a tool often in one answer.
func manyCalls(t *testing.T, g *turnstile, n int) *core {
	t.Helper()
	uses := make([]tree.ToolUse, n)
	for i := range uses {
		uses[i] = use("turnstile", map[string]any{"n": i})
	}
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		if turn(req) == 0 {
			return calls(uses...)
		}
		return says("done")
	}), g)
	c.must(tree.CreateSession{
		ID: tree.SessionID(c.newID()), Tenant: "t", Agent: c.agents["root"], Limits: tree.DefaultLimits(),
		Message: []tree.Block{tree.Text{Text: "go"}},
	})
	return c
}

const parallel, manyOfThem = 16, 40

// TestFewToolsOfAnAnswerRunAtOnce: the others follow, and each call has its result.
func TestFewToolsOfAnAnswerRunAtOnce(t *testing.T) {
	t.Parallel()
	for _, effect := range []tool.Effect{tool.EffectNone, tool.EffectLasting} {
		synctest.Test(t, func(t *testing.T) {
			g := &turnstile{effect: effect, open: make(chan struct{})}
			c := manyCalls(t, g, manyOfThem)
			var playing sync.WaitGroup
			playing.Go(func() { c.play(t.Context()) })
			synctest.Wait()
			if running, begun := g.state(); running != parallel || begun != parallel {
				t.Errorf("%d calls run, %d have begun", running, begun)
			}
			for i := range parallel {
				if !slices.Contains(g.begun, fmt.Sprintf(`{"n":%d}`, i)) {
					t.Errorf("call %d has not begun before others", i)
				}
			}
			close(g.open)
			playing.Wait()
			said := c.say()
			for i := range manyOfThem {
				if want := fmt.Sprintf(`result %d through with {"n":%d}`, i+1, i); !strings.Contains(said, want) {
					t.Errorf("no %q", want)
				}
			}
		})
	}
}

// TestCallsThatWaitEndWithTheAttempt: they never begin.
func TestCallsThatWaitEndWithTheAttempt(t *testing.T) {
	t.Parallel()
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g := &turnstile{effect: tool.EffectNone, open: make(chan struct{})}
			c := manyCalls(t, g, manyOfThem)
			ctx, cancel := context.WithCancel(t.Context())
			var playing sync.WaitGroup
			playing.Go(func() { c.attemptOnce(ctx) })
			synctest.Wait()
			cancel()
			playing.Wait()
			if running, begun := g.state(); running != 0 || begun != parallel {
				t.Errorf("%d calls run, %d have begun", running, begun)
			}
		})
	})
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g := &turnstile{effect: tool.EffectLasting, open: make(chan struct{})}
			c := manyCalls(t, g, manyOfThem)
			c.lose = func(n int) (bool, bool) { return n == 5, false }
			var playing sync.WaitGroup
			playing.Go(func() { c.attemptOnce(t.Context()) })
			synctest.Wait()
			close(g.open)
			playing.Wait()
			if running, begun := g.state(); running != 0 || begun >= parallel {
				t.Errorf("%d calls run, %d have begun", running, begun)
			}
		})
	})
}

// attemptOnce carries the run that is ready forward once.
func (c *core) attemptOnce(ctx context.Context) {
	for _, r := range c.view.Changes().Ready {
		c.attempt(ctx, *r)
		return
	}
}
