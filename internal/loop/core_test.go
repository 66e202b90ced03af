package loop_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// core is a session in memory: the real decisions on a view that never forgets.
type core struct {
	t        *testing.T
	model    model.Model
	tools    []tool.Tool
	agents   map[string]*tree.Agent
	mu       sync.Mutex
	view     *tree.View
	ids      uint64
	now      time.Time
	requests int
	// compactAt is how many tokens a conversation may have; 0 is for ever.
	compactAt int
	hooks     loop.Hooks // of sub-agents
	// lose decides, for the n-th request of all attempts, whether its worker dies
	// before or after it was stored.
	lose     func(n int) (before, after bool)
	launched []*tool.Command     // that have become tasks
	heard    func(*tool.Command) // carries on what has, once somebody waits to hear of it
	// prepare changes a run before it is carried forward.
	prepare func(*loop.Run)
}

func newCore(t *testing.T, m model.Model, tools ...tool.Tool) *core {
	c := &core{
		t: t, model: m, tools: append(tool.Builtin(), tools...), view: tree.NewView(nil),
		now:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		agents: map[string]*tree.Agent{},
		lose:   func(int) (bool, bool) { return false, false },

		prepare: func(*loop.Run) {},
	}
	for _, name := range []string{"root", "scout"} {
		c.agents[name] = &tree.Agent{Name: name, Version: "1", Mode: tree.ModeBoth}
	}
	return c
}

func (c *core) newID() [16]byte {
	c.ids++
	var id [16]byte
	binary.BigEndian.PutUint64(id[8:], c.ids)
	return id
}

// decide applies a command; rows that nobody has made do not exist.
func (c *core) decide(cmd tree.Command) (tree.Answer, error) {
	for missing := c.view.Missing(cmd); !missing.Empty(); missing = c.view.Missing(cmd) {
		for _, id := range missing.Tasks {
			c.view.PutTask(id, nil)
		}
		for _, key := range missing.Calls {
			c.view.PutCall(key, nil)
		}
		for _, id := range missing.OpenCalls {
			c.view.PutOpenCalls(id, nil)
		}
		for _, id := range missing.Inbox {
			c.view.PutInbox(id, nil)
		}
		for _, run := range missing.Watchers {
			c.view.PutWatchers(run, nil)
		}
		for _, id := range missing.Approvals {
			c.view.PutApproval(id, nil)
		}
		for _, run := range missing.Callbacks {
			c.view.PutCallback(run, nil)
		}
	}
	c.now = c.now.Add(time.Millisecond)
	return tree.Decide(c.view, tree.Env{Now: c.now, NewID: c.newID, Replica: "r"}, cmd)
}

func (c *core) must(cmd tree.Command) tree.Answer {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, err := c.decide(cmd)
	if err != nil {
		c.t.Fatalf("%T: %v", cmd, err)
	}
	return answer
}

// transcript assembles what a worker would be sent.
func (c *core) transcript(id tree.TaskID) []tree.Message {
	var out []tree.Message
	for _, m := range c.view.Changes().Messages {
		if m.Task != id {
			continue
		}
		shown := *m
		if m.Role == tree.RoleTool {
			shown.Blocks = c.results(out[len(out)-1])
		}
		if !m.News.Task.IsZero() {
			shown.Blocks = []tree.Block{tree.Text{Text: c.outcome(m.News)}}
		}
		out = append(out, shown)
	}
	return out
}

func (c *core) results(asked tree.Message) []tree.Block {
	var blocks []tree.Block
	for i, b := range asked.Blocks {
		use, ok := b.(tree.ToolUse)
		if !ok {
			continue
		}
		call := c.view.Changes().Calls[tree.CallKey{Task: asked.Task, Ref: tree.CallRef{Message: asked.Ordinal, Block: i}}]
		text := call.Text
		if call.ByOutcome {
			text = c.outcome(call.Child)
		}
		blocks = append(blocks, tree.ToolResult{Block: i, ProviderID: use.ProviderID, Text: text, IsError: call.IsError})
	}
	return blocks
}

func (c *core) outcome(child tree.ChildRun) string {
	for _, r := range c.view.Changes().Runs {
		if r.Task == child.Task && r.Run == child.Run {
			var answer string
			for _, m := range c.view.Changes().Messages {
				if m.Task == r.Task && m.Ordinal == r.Answer {
					answer = m.Text()
				}
			}
			o := tree.Outcome{Run: *r}
			o.SetAnswerText(answer)
			return o.Text()
		}
	}
	c.t.Errorf("run %v has not ended", child)
	return ""
}

// play runs everything that is ready, until nothing is.
func (c *core) play(ctx context.Context) {
	for {
		var ready []tree.Ready
		for _, r := range c.view.Changes().Ready {
			if r != nil {
				ready = append(ready, *r)
			}
		}
		if len(ready) == 0 {
			return
		}
		slices.SortFunc(ready, func(a, b tree.Ready) int { return strings.Compare(a.Task.String(), b.Task.String()) })
		for _, r := range ready {
			c.attempt(ctx, r)
		}
	}
}

// attempt claims a run and carries it forward; a lost one is offered again.
func (c *core) attempt(ctx context.Context, r tree.Ready) {
	token := tree.Token{Epoch: r.Epoch, Nonce: uint64(r.Epoch)}
	granted := c.must(tree.Claim{Task: r.Task, Token: token, Worker: "w"}).(*tree.Claimed)
	task := granted.Task
	claimed := c.now
	run := &loop.Run{
		Session: task.Session, Task: task.ID, Agent: task.Agent, Depth: task.Depth,
		Transcript: c.conversation(task.ID), CanCompact: c.compactAt > 0, CompactAt: c.compactAt, Iterations: task.Iterations,
		MaxIterations: task.MaxIterations, MaxPartBytes: 1 << 20, Authority: task.Authority, Source: task.Source,
		Model: c.model, TakesLeftovers: true, BudgetSpent: granted.Spent, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return claimed },
		Tools:   append(c.tools, tool.NewTask([]tool.Spawnable{{Name: "scout", WhenToUse: "looking"}})),
		Journal: &journal{core: c, from: tree.From{Task: task.ID, Token: token, Attach: task.Attach}, seen: task.NextOrdinal - 1},
	}
	for _, call := range c.view.Changes().Calls {
		if call.Task == task.ID && call.State != tree.CallClosed {
			run.OpenCalls = append(run.OpenCalls, *call)
		}
	}
	slices.SortFunc(run.OpenCalls, func(a, b tree.Call) int { return a.Ref.Block - b.Ref.Block })
	c.prepare(run)
	if task.Depth > 0 {
		run.Hooks, run.StartHooksDue, run.HookContinuations = c.hooks, !task.StartHooked && task.Iterations == 0, task.StopHooked
	}
	outcome, err := run.Do(ctx)
	if err != nil {
		c.t.Errorf("attempt at %s: %v", task.ID, err)
	}
	if outcome != loop.Lost {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The last thing stored may have ended or parked the run; then it is not lost.
	if _, err := c.decide(tree.Redeliver{Task: task.ID, Epoch: token.Epoch}); err != nil && !errors.Is(err, tree.ErrStale) {
		c.t.Errorf("redelivering %s: %v", task.ID, err)
	}
}

// journal records an attempt in the core.
type journal struct {
	*core
	from tree.From
	seen int
	lost bool

	untold atomic.Int64 // answers that give commands away and that nobody has waited for
}

type reply struct {
	loop.Reply
	err error
}

func (r reply) Wait(context.Context) (loop.Reply, error) { return r.Reply, r.err }

func (j *journal) request(make func(tree.From) tree.Command) loop.Pending {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lost {
		return reply{err: loop.ErrLost}
	}
	j.requests++
	before, after := j.lose(j.requests)
	if j.lost = before || after; before {
		return reply{err: loop.ErrLost}
	}
	j.from.Seq++
	answer, err := j.decide(make(j.from))
	if err != nil {
		j.t.Errorf("request %d: %v", j.from.Seq, err)
		j.lost = true
	}
	if j.lost {
		return reply{err: loop.ErrLost}
	}
	switch a := answer.(type) {
	case tree.Stored:
		if a.Ordinal > 0 {
			j.seen = a.Ordinal
		}
		out := loop.Reply{Ordinal: a.Ordinal, Approved: a.Approved}
		if a.Boundary > 0 {
			out.Boundary = j.boundary(a.Boundary)
			out.Boundary.BudgetSpent, out.Boundary.BudgetShort, out.Boundary.Source = a.Spent, a.Short, a.Source
		}
		return reply{Reply: out}
	case tree.ParkedRun:
		return reply{Reply: loop.Reply{Parked: true}}
	case tree.Ended:
		return reply{Reply: loop.Reply{Ended: true}}
	}
	return reply{err: fmt.Errorf("answered with %T", answer)}
}

func (j *journal) boundary(last int) *loop.Boundary {
	out := &loop.Boundary{}
	for _, m := range j.transcript(j.from.Task) {
		if m.Ordinal <= j.seen || m.Ordinal > last {
			continue
		}
		if m.Role != tree.RoleTool {
			out.News = append(out.News, m)
			continue
		}
		out.ID, out.Ordinal = m.ID, m.Ordinal
		for _, b := range m.Blocks {
			out.Results = append(out.Results, b.(tree.ToolResult))
		}
	}
	j.seen = last
	return out
}

func (j *journal) Append(m *tree.Message) loop.Pending {
	return j.request(func(f tree.From) tree.Command { return tree.AppendAnswer{From: f, Message: *m} })
}

func (j *journal) StartCall(block int) loop.Pending {
	return j.request(func(f tree.From) tree.Command { return tree.StartCall{From: f, Block: block} })
}

func (j *journal) CloseCall(r tree.ToolResult) loop.Pending {
	return j.request(func(f tree.From) tree.Command {
		return tree.CloseCall{From: f, Block: r.Block, Text: r.Text, IsError: r.IsError}
	})
}

func (j *journal) DenyCall(r tree.ToolResult, argument, why string) loop.Pending {
	return j.request(func(f tree.From) tree.Command {
		return tree.CloseCall{
			From: f, Block: r.Block, Text: r.Text, IsError: r.IsError,
			Denial: tree.Denial{Cause: tree.DeniedByPermission, Argument: argument, Detail: why},
		}
	})
}

func (j *journal) Spawn(children []loop.Child) loop.Pending {
	return j.unheard(children, j.request(func(f tree.From) tree.Command {
		cmd := tree.SpawnCalls{From: f}
		for _, c := range children {
			if c.Command != nil {
				cmd.Children = append(cmd.Children, j.shell(c))
				continue
			}
			cmd.Children = append(cmd.Children, tree.CallChild{
				Block: c.Block, Resume: c.Resume, Background: c.Background,
				Child: tree.Child{
					Agent: j.agents[c.Agent], AgentName: c.Agent, Description: c.Description, Prompt: c.Prompt,
					Fork: c.Fork,
				},
			})
		}
		return cmd
	}))
}

func (j *journal) Await(block int, task tree.TaskID, timeout time.Duration) loop.Pending {
	return j.request(func(f tree.From) tree.Command {
		return tree.AwaitTask{From: f, Block: block, Target: task, Timeout: timeout}
	})
}

func (j *journal) Ask(block int, argument string, rules []string) loop.Pending {
	return j.request(func(f tree.From) tree.Command {
		return tree.Ask{From: f, Block: block, Argument: argument, Rules: rules}
	})
}

func (j *journal) Park() loop.Pending {
	if n := j.untold.Load(); n > 0 {
		j.t.Errorf("the run parks before it has heard which of %d commands are tasks", n)
	}
	return j.request(func(f tree.From) tree.Command { return tree.Park{From: f} })
}

func (j *journal) End(e loop.Ending) loop.Pending {
	return j.request(func(f tree.From) tree.Command {
		return tree.End{From: f, Answer: e.Answer, Reason: e.Reason, Detail: e.Detail, Left: e.Leftovers}
	})
}

func (j *journal) StartHooks(ran []tree.HookRun) loop.Pending {
	return j.request(func(f tree.From) tree.Command { return tree.StartHooks{From: f, Ran: ran} })
}

func (j *journal) StopHooks(answer *tree.Message, ran []tree.HookRun, left string) loop.Pending {
	return j.request(func(f tree.From) tree.Command { return tree.StopHooks{From: f, Answer: answer, Ran: ran, Left: left} })
}

func (j *journal) Report(activity string) {
	j.request(func(f tree.From) tree.Command { return tree.Report{From: f, Activity: activity} })
}

func (j *journal) Delta(model.Delta) {}

// say writes all transcripts down, without ids and times.
func (c *core) say() string {
	var out strings.Builder
	ids := slices.SortedFunc(maps.Keys(c.view.Changes().Tasks), func(a, b tree.TaskID) int {
		return strings.Compare(c.label(a), c.label(b))
	})
	for _, id := range ids {
		t := c.view.Changes().Tasks[id]
		fmt.Fprintf(&out, "%s: %s %s\n", c.label(id), t.State, t.Reason)
		for _, m := range c.transcript(id) {
			for _, b := range m.Blocks {
				switch b := b.(type) {
				case tree.Text:
					fmt.Fprintf(&out, "  %d text %s\n", m.Role, c.anonymous(b.Text))
				case tree.ToolUse:
					fmt.Fprintf(&out, "  call %s %s\n", b.Name, b.Input)
				case tree.ToolResult:
					fmt.Fprintf(&out, "  result %d %s\n", b.Block, c.anonymous(b.Text))
				}
			}
		}
	}
	return out.String()
}

// label names a task by its place rather than its id.
func (c *core) label(id tree.TaskID) string {
	t := c.view.Changes().Tasks[id]
	if t.Parent.IsZero() {
		return "root"
	}
	return c.label(t.Parent) + "/" + t.Description
}

func (c *core) anonymous(text string) string {
	for id := range c.view.Changes().Tasks {
		text = strings.ReplaceAll(text, id.String(), c.label(id))
	}
	if i := strings.Index(text, `"duration_ms":`); i >= 0 {
		text = text[:i]
	}
	return text
}

var errModel = errors.New("the model is out of order")
