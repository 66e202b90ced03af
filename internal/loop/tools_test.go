package loop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// finder looks for a tool that is deferred, calls it, and keeps an eye on what it is
// told with each request.
func finder(req *model.Request) (*model.Answer, error) {
	has := slices.ContainsFunc(req.Tools, func(s model.ToolSpec) bool { return s.Name == "deploy" })
	if n := turn(req); has != (n >= 2) {
		return nil, fmt.Errorf("with request %d the tool is handed over: %t", n, has)
	}
	switch turn(req) {
	case 0:
		return calls(use("deploy", nil), use("find_tools", map[string]any{"query": "nothing of the kind"}))
	case 1:
		return calls(use("find_tools", map[string]any{"query": "deploy"}))
	case 2:
		return calls(use("deploy", nil))
	}
	return says("all done")
}

// TestToolsAreFound loses the worker at each request in turn: what was found stays
// found, since the transcript says so.
func TestToolsAreFound(t *testing.T) {
	t.Parallel()
	play := func(lose func(int) (bool, bool)) (said string, requests int) {
		runs := &atomic.Int64{}
		c := newCore(t, answers(finder))
		c.lose = lose
		c.prepare = func(r *loop.Run) {
			r.Tools, r.DeferredTools = tool.Defer(append(r.Tools, counter{runs}), []string{"deploy"}, true)
		}
		start(t, c)
		if runs.Load() > 1 {
			t.Errorf("the tool ran %d times", runs.Load())
		}
		return c.say(), c.requests
	}
	want, total := play(func(int) (bool, bool) { return false, false })
	for _, part := range []string{`the tool "deploy" has to be found before it can be called`, "result 1 deployed", "root: completed", "all done"} {
		if !strings.Contains(want, part) {
			t.Errorf("no %q in:\n%s", part, want)
		}
	}
	for n := 1; n <= total; n++ {
		for _, before := range []bool{true, false} {
			got, _ := play(func(i int) (bool, bool) { return i == n && before, i == n && !before })
			if got = replaceUnknown(got); got != want {
				t.Errorf("request %d, before %t:\n got %s\nwant %s", n, before, got, want)
			}
		}
	}
}

// numbered is one of many tools.
type numbered struct {
	counter
	n int
}

func (t numbered) Spec() model.ToolSpec {
	return model.ToolSpec{Name: fmt.Sprintf("t%03d", t.n), Description: fmt.Sprintf("of lot%d", t.n/20), Schema: json.RawMessage(`{"type":"object"}`)}
}

// TestNoMoreToolsThanAProviderTakes: the oldest finds make room for new ones, but for those that
// were found again, and what stays keeps its place.
func TestNoMoreToolsThanAProviderTakes(t *testing.T) {
	t.Parallel()
	const most, lots = 128, 8
	var many []tool.Tool
	for i := range 20 * lots {
		many = append(many, numbered{counter{&atomic.Int64{}}, i})
	}
	has := func(req *model.Request, n int) bool {
		return slices.ContainsFunc(req.Tools, func(s model.ToolSpec) bool { return s.Name == fmt.Sprintf("t%03d", n) })
	}
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		n := turn(req)
		if len(req.Tools) > most {
			return nil, fmt.Errorf("with request %d there are %d tools", n, len(req.Tools))
		}
		names := make([]string, 0, len(req.Tools))
		for _, s := range req.Tools {
			if strings.HasPrefix(s.Name, "t0") || strings.HasPrefix(s.Name, "t1") || strings.HasPrefix(s.Name, "t2") {
				names = append(names, s.Name)
			}
		}
		if !slices.IsSorted(names) {
			return nil, fmt.Errorf("with request %d the tools are %q", n, names)
		}
		for lot := max(0, min(n, lots)-5); lot < min(n, lots); lot++ {
			if !has(req, 20*lot) || !has(req, 20*lot+19) {
				return nil, fmt.Errorf("with request %d lot %d is not handed over", n, lot)
			}
		}
		switch {
		case n > 0 && !has(req, 0):
			return nil, fmt.Errorf("with request %d what is found again and again is not handed over", n)
		case n == lots && has(req, 20):
			return nil, errors.New("what was found first is still there")
		case n == lots:
			return calls(use("t020", nil))
		case n > lots:
			return says("done")
		}
		return calls(use("find_tools", map[string]any{"query": fmt.Sprintf("lot%d", n), "limit": 20}), use("find_tools", map[string]any{"query": "t000", "limit": 1}))
	}))
	c.prepare = func(r *loop.Run) {
		r.MaxIterations = 2 * lots
		r.Tools, r.DeferredTools = tool.Defer(append(r.Tools, many...), nil, true)
	}
	start(t, c)
	runs := c.view.Changes().Runs
	if said := c.say(); !strings.Contains(said, "root: completed") || !strings.Contains(said, `the tool "t020" has to be found before it can be called`) {
		t.Errorf("%s", runs[len(runs)-1].Detail)
	}
}

// TestRemindersAreNotKept: the model is reminded with each call, and what is stored
// knows nothing of it.
func TestRemindersAreNotKept(t *testing.T) {
	t.Parallel()
	const reminder = "Mind the gap."
	reminded := 0
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		if req.Reminder == reminder {
			reminded++
		}
		for _, m := range req.Messages {
			if strings.Contains(m.Text(), reminder) {
				return nil, fmt.Errorf("the reminder is in message %d", m.Ordinal)
			}
		}
		if turn(req) < 2 {
			return calls(use("nothing", nil))
		}
		return says("went on")
	}))
	c.prepare = func(r *loop.Run) { r.Reminder = reminder }
	start(t, c)
	if said := c.say(); reminded != 3 || strings.Contains(said, reminder) || !strings.Contains(said, "root: completed") {
		t.Errorf("reminded %d times:\n%s", reminded, said)
	}
	for _, m := range c.transcript(c.view.Changes().Session.Root) {
		if m.Role == tree.RoleUser && m.Text() != "go" {
			t.Errorf("message %d is %q", m.Ordinal, m.Text())
		}
	}
}
