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

// gate is hooks that give context on a start, and object to a stop so many times a
// run.
type gate struct {
	starts *atomic.Int64
	times  int
}

func (g gate) Start(context.Context) []tree.HookRun {
	g.starts.Add(1)
	return []tree.HookRun{{Event: tree.SubagentStart, Name: "rules", Outcome: tree.HookPassed, Output: "be\xff brief"}}
}

func (g gate) Stop(_ context.Context, answer string, wentOn int) []tree.HookRun {
	if answer == "" {
		return nil
	}
	r := tree.HookRun{Event: tree.SubagentStop, Name: "gate", Outcome: tree.HookPassed}
	if wentOn < g.times {
		r.Outcome, r.Output = tree.HookBlocked, fmt.Sprintf("not yet, %d", wentOn)
	}
	return []tree.HookRun{r}
}

// TestHooksInTheTurn loses the worker at each of its requests in turn, before and
// after they are stored: the transcript is always the same, and no more than one
// call of the hooks on the start is repeated.
func TestHooksInTheTurn(t *testing.T) {
	t.Parallel()
	play := func(times, at int, after bool) (said string, starts, requests int) {
		var m answers = func(req *model.Request) (*model.Answer, error) {
			switch {
			case req.Depth == 0 && turn(req) == 0:
				return calls(task("north", nil))
			case req.Depth == 0:
				return says("all done")
			}
			var heard []string
			for _, m := range req.Messages {
				if m.Role == tree.RoleUser {
					heard = append(heard, m.Text())
				}
			}
			return says(strings.Join(heard, " | "))
		}
		c := newCore(t, m)
		g := gate{starts: &atomic.Int64{}, times: times}
		c.hooks = g
		c.lose = func(n int) (bool, bool) { return n == at && !after, n == at && after }
		start(t, c)
		return c.say(), int(g.starts.Load()), c.requests
	}
	calm, starts, requests := play(2, 0, false)
	want := `look at north | Context from the hook "rules":` + "\nbe\uFFFD brief | The hook \"gate\" does not let you end yet:\nnot yet, 0 | " +
		"The hook \"gate\" does not let you end yet:\nnot yet, 1"
	if !strings.Contains(calm, want) || starts != 1 {
		t.Fatalf("%d starts of hooks; the transcripts are\n%s", starts, calm)
	}
	for at := 1; at <= requests; at++ {
		for _, after := range []bool{false, true} {
			lost, starts, _ := play(2, at, after)
			if lost != calm || starts > 2 {
				t.Errorf("a worker lost at request %d, stored: %t; %d starts of hooks\n%s\nwant\n%s", at, after, starts, lost, calm)
			}
		}
	}
	if endless, _, _ := play(1000, 0, false); !strings.Contains(endless, fmt.Sprintf("not yet, %d", tree.MaxStopHooks-1)) || !strings.Contains(endless, "all done") {
		t.Errorf("hooks that never let go:\n%s", endless)
	}
}

var _ loop.Hooks = gate{}
