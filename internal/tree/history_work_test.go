package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// work draws a worker's next request: mostly one that makes sense, mostly from
// a worker that still has its run.
func (h *history) work() Command {
	var live, any []*worker
	for _, w := range h.workers {
		if t := h.db.tasks[w.task]; t.State == StateRunning && t.Token() == w.token {
			live = append(live, w)
		}
		any = append(any, w)
	}
	from := live
	if len(any) > 0 && (len(live) == 0 || h.often(3)) {
		from = any
	}
	if len(from) == 0 {
		return h.send()
	}
	w := oneOf(h, from)
	w.seq++
	f := From{Task: w.task, Token: w.token, Attach: w.attach, Seq: w.seq}
	switch {
	case h.often(2):
		f.Seq++
	case h.often(2):
		f.Attach--
	case h.often(2):
		return Repeat{From: From{f.Task, f.Token, f.Attach, max(f.Seq-1, 1)}, Answered: h.often(50), Asked: h.askedBefore(f)}
	case h.often(3):
		return Reattach{Task: w.task, Token: w.token}
	}
	t := h.db.tasks[w.task]
	switch {
	case t.isShell():
		return h.carries(f)
	case t.OpenCalls == 0:
		return h.turn(f)
	}
	return h.tend(f)
}

// turn draws what a worker does at a boundary.
func (h *history) turn(f From) Command {
	t := h.db.tasks[f.Task]
	if t.Iterations >= t.MaxIterations && h.often(80) {
		return End{From: f, Reason: ReasonMaxIterations}
	}
	if h.db.session.spent() != "" && h.often(80) {
		return End{From: f, Reason: ReasonBudgetExhausted}
	}
	if h.db.session.mustYield(&t) && h.often(50) {
		return h.parks(f)
	}
	return pick(h,
		weighted[func(From) Command]{60, h.asks},
		weighted[func(From) Command]{25, h.answers},
		weighted[func(From) Command]{10, h.startHooks},
		weighted[func(From) Command]{15, h.stopHooks},
		weighted[func(From) Command]{3, h.fails},
		weighted[func(From) Command]{2, h.parks},
		weighted[func(From) Command]{3, h.reports},
		weighted[func(From) Command]{1, h.closes},
		weighted[func(From) Command]{4, h.sums},
	)(f)
}

// tend draws what a worker does while calls are open.
func (h *history) tend(f From) Command {
	tend, park := 60, 5
	if !slices.ContainsFunc(h.db.openCalls(f.Task), func(c *Call) bool { return c.State != CallWaiting && c.State != CallAsking }) {
		tend, park = 5, 60
	}
	return pick(h,
		weighted[func(From) Command]{tend, h.spawns},
		weighted[func(From) Command]{tend / 3, h.closes},
		weighted[func(From) Command]{tend / 4, h.awaits},
		weighted[func(From) Command]{tend / 3, h.asksWhether},
		weighted[func(From) Command]{tend / 8, h.starts},
		weighted[func(From) Command]{park, h.parks},
		weighted[func(From) Command]{3, h.reports},
		weighted[func(From) Command]{2, h.asks},
		weighted[func(From) Command]{1, h.sums},
		weighted[func(From) Command]{1, h.answers},
		weighted[func(From) Command]{1, h.fails},
	)(f)
}

func (h *history) usage() Usage {
	n := h.rng.Int64N(10)
	u := Usage{Input: n, Output: 1, CacheRead: 2 * n}
	if n%3 > 0 { // of a model with a price
		u.Cost, u.Priced = 7*n, u.Total()
	}
	return u
}

// asks opens calls; the provider gives all of them the same id.
func (h *history) asks(f From) Command {
	m := Message{Usage: h.usage()}
	if h.often(50) {
		m.Blocks = []Block{Text{Text: "let me see"}}
	}
	for range h.rng.IntN(4) {
		m.Blocks = append(m.Blocks, ToolUse{ProviderID: "call_0", Name: "task"})
	}
	return AppendAnswer{From: f, Message: m}
}

func (h *history) answers(f From) Command {
	text := "done"
	if h.often(2) {
		text = strings.Repeat("x", 101)
	}
	return End{From: f, Answer: &Message{Usage: h.usage(), Blocks: []Block{Text{Text: text}}}}
}

func (h *history) fails(f From) Command {
	return End{From: f, Reason: ReasonProviderError, Detail: "no answer"}
}

func (h *history) parks(f From) Command { return Park{From: f} }

func (h *history) reports(f From) Command {
	return Report{From: f, Activity: fmt.Sprintf("at %d", f.Seq)}
}

// seconds draws less than so many.
func (h *history) seconds(most int) time.Duration {
	return time.Duration(h.rng.IntN(most)) * time.Second
}

// block draws a block of the message asked, mostly one whose call is open.
func (h *history) block(f From) int {
	open := h.db.openCalls(f.Task)
	if len(open) == 0 || h.often(10) {
		return h.rng.IntN(6)
	}
	return oneOf(h, open).Ref.Block
}

func (h *history) starts(f From) Command { return StartCall{From: f, Block: h.block(f)} }

func (h *history) closes(f From) Command {
	return CloseCall{From: f, Block: h.block(f), Text: "result", IsError: h.often(20)}
}

func (h *history) awaits(f From) Command {
	a := AwaitTask{From: f, Block: h.block(f), Target: h.aTask(), Stop: h.often(15)}
	if h.often(70) {
		a.Timeout = 30 * time.Second
	}
	return a
}

// spawns asks for a child for some of the open calls.
func (h *history) spawns(f From) Command {
	s := SpawnCalls{From: f}
	for _, call := range h.db.openCalls(f.Task) {
		if !h.often(80) {
			continue
		}
		c := CallChild{Block: call.Ref.Block, Child: h.child(), Background: h.often(40)}
		if h.often(25) {
			c.Resume = h.aTask()
			if h.often(90) {
				c.AgentName = h.db.tasks[c.Resume].Agent
			}
		}
		if h.often(20) {
			c.Shell = h.aShell()
		}
		if h.often(25) {
			c.Join = oneOf(h, []Join{JoinAny, JoinAny, 2, 3, JoinMax + 1})
		}
		if h.often(10) {
			c.JoinFor = h.seconds(20) - time.Second
		}
		s.Children = append(s.Children, c)
	}
	if h.often(2) {
		s.Children = append(s.Children, CallChild{Block: 9, Child: h.child()})
	}
	return s
}

// end lets all workers finish. Then everybody who has ended is spoken to, and
// has to take that in with all that came before; and once more all finish.
func (h *history) end() {
	h.drain()
	if !h.db.session.ClosedAt.IsZero() {
		return
	}
	var cmds []Command
	for _, id := range byID(h.db.tasks) {
		if t := h.db.tasks[id]; t.isShell() {
			continue
		}
		cmds = append(cmds, Send{Task: id, Message: []Block{Text{Text: h.text()}}})
	}
	for _, sent := range h.commit(cmds...) {
		if sent.Err != nil || sent.Answer.(Sent).Queued {
			h.t.Fatalf("a message to a task that has ended: %+v", sent)
		}
	}
	for id, t := range h.db.tasks {
		if t.Inbox > 0 {
			h.t.Fatalf("task %s begins its run with an inbox of %d", id, t.Inbox)
		}
	}
	h.drain()
}

// drain lets every worker finish what it has and claim what there is. Timers
// need not fire for it. It ends with a quiet session.
func (h *history) drain() {
	h.reseed()
	timers := h.often(50)
	for round := 0; ; round++ {
		if round > 1000 {
			h.t.Fatalf("the session does not become quiet: %+v", h.db.session)
		}
		cmds := h.finishing(timers)
		if len(cmds) == 0 {
			break
		}
		for _, outcome := range h.commit(cmds...) {
			// Of two that end in one batch, one may have cancelled the other, and so
			// withdrawn what the other had asked. With what one uses there may be nothing left
			// for another.
			if errors.Is(outcome.Err, ErrCapped) && h.db.session.Budget != (Budget{}) {
				continue
			}
			if err := outcome.Err; err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrNotReady) && !errors.Is(err, ErrDecided) {
				h.t.Fatalf("while draining: %v", err)
			}
		}
	}
	for id, t := range h.db.tasks {
		if t.State != StateNew && !t.State.Terminal() {
			h.t.Fatalf("all is quiet, but task %s is %s: %+v, %+v", id, t.State, t, h.db.openCalls(id)[0])
		}
	}
	if n := len(h.db.ready) + len(h.db.attempts) + len(h.db.waits) + len(h.db.timers); n > 0 || !h.db.session.Idle() {
		h.t.Fatalf("all is quiet, but %d rows are left", n)
	}
}

// finishing is what there is to do: one step of every worker, and a claim of
// every ready run for which there is room.
func (h *history) finishing(timers bool) []Command {
	var cmds []Command
	for _, id := range byID(h.db.attempts) {
		t := h.db.tasks[id]
		cmds = append(cmds, h.finish(&t)...)
	}
	room := h.db.session.Cap() - h.db.session.Running
	for i, id := range byID(h.db.ready) {
		if i < room {
			cmds = append(cmds, Claim{Task: id, Token: Token{h.db.ready[id].Epoch, 1}, Worker: "w"})
		}
	}
	cmds = append(cmds, h.deciding(len(cmds) == 0)...)
	if timers {
		for _, key := range callKeys(h.db.timers) {
			cmds = append(cmds, Expire{Task: key.Task, Ref: key.Ref})
		}
	}
	return cmds
}

// finish closes what a worker can close, then parks or answers.
func (h *history) finish(t *Task) []Command {
	f := From{Task: t.ID, Token: t.Token(), Attach: t.Attach, Seq: t.LastSeq + 1}
	if t.isShell() {
		return []Command{EndShell{From: f, Output: "out"}}
	}
	waiting := false
	for _, call := range h.db.openCalls(t.ID) {
		if call.State != CallWaiting && call.State != CallAsking {
			return []Command{CloseCall{From: f, Block: call.Ref.Block, Text: "result"}}
		}
		waiting = true
	}
	switch {
	case waiting:
		return []Command{Park{From: f}}
	case t.Iterations >= t.MaxIterations:
		return []Command{End{From: f, Reason: ReasonMaxIterations}}
	case h.db.session.spent() != "":
		return []Command{End{From: f, Reason: ReasonBudgetExhausted}}
	default:
		return []Command{End{From: f, Answer: &Message{Blocks: []Block{Text{Text: "done"}}}}}
	}
}
