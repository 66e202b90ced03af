package tree

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHistories lets workers, clients and the orchestrator do to one session
// whatever they may try, in any order and any grouping, and holds every state
// that comes of it against the invariants. In the end all workers finish what
// there is to do, and the session has to become quiet.
func TestHistories(t *testing.T) {
	t.Parallel()
	histories, steps, commands := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := openHistory(t)
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			h.step()
			steps++
		}
		h.end()
		histories, commands = histories+1, commands+h.commands
	})
	t.Logf("%d histories of %d steps, %d commands: all became quiet", histories, steps, commands)
}

// history is a session in the hands of random workers and clients.
type history struct {
	t       *rapid.T
	rng     *rand.Rand // of the current step
	db      *database
	workers []*worker // all that ever claimed a run, also those that were lost
	hazard  int       // how often workers are lost

	commands int // committed so far
	texts    int
	said     map[string]TaskID // the messages of clients that were accepted
}

// worker is an attempt as its worker sees it.
type worker struct {
	task   TaskID
	token  Token
	attach int   // of the stream that it has
	seq    int64 // its last request
}

var (
	scout   = &Agent{Name: "scout", Version: "1", Mode: ModeBoth}
	brittle = &Agent{Name: "brittle", Version: "1", Mode: ModeBoth, FailOnInterrupt: true, OnComplete: "https://b.example/"}
	boss    = &Agent{Name: "boss", Version: "1", Mode: ModePrimary, OnComplete: "https://a.example/"}
	careful = carefulAgent()
)

func openHistory(t *rapid.T) *history {
	h := &history{t: t, db: newDatabase(), said: map[string]TaskID{}}
	h.reseed()
	limits := Limits{
		Depth: h.rng.IntN(4), Width: 1 + h.rng.IntN(8), Total: 1 + h.rng.IntN(30), Running: 1 + h.rng.IntN(5),
		RootIterations: 1 + h.rng.IntN(12), SubIterations: 1 + h.rng.IntN(8), PartBytes: 100, Inbox: 1 + h.rng.IntN(4), InboxBytes: h.rng.IntN(40),
		Queue: h.rng.IntN(20), Approval: time.Duration(h.rng.IntN(2)) * time.Minute, NoBackground: h.often(10), Escalate: h.often(50),
	}
	h.hazard = 1 + h.rng.IntN(15)
	h.commit(CreateSession{
		ID: SessionID{1}, Tenant: "acme", Agent: boss, Message: h.chance(80, []Block{Text{Text: "begin"}}), Limits: limits,
		History: h.past(), OnApproval: []string{"", "https://c.example/"}[h.rng.IntN(2)],
	})
	return h
}

// reseed draws the choices of the next step. They come from a seed, since rapid
// prefers small numbers, which makes for shallow histories; it can still leave
// out steps when it looks for the shortest history that goes wrong.
func (h *history) reseed() {
	h.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(h.t, "seed"), rapid.Uint64().Draw(h.t, "seed")))
}

// chance gives blocks in so many of a hundred cases, else none.
func (h *history) chance(percent int, blocks []Block) []Block {
	if h.often(percent) {
		return blocks
	}
	return nil
}

func (h *history) often(percent int) bool {
	return h.rng.IntN(100) < percent
}

// pick draws one of the options by weight.
func pick[T any](h *history, options ...weighted[T]) T {
	total := 0
	for _, o := range options {
		total += o.weight
	}
	n := h.rng.IntN(total)
	for _, o := range options {
		if n -= o.weight; n < 0 {
			return o.option
		}
	}
	panic("unreachable")
}

func oneOf[T any](h *history, options []T) T { return options[h.rng.IntN(len(options))] }

type weighted[T any] struct {
	weight int
	option T
}

// step lets a few commands be decided together. Now and then their transaction
// is lost; it then has to be as if they had never been.
func (h *history) step() {
	h.reseed()
	var cmds []Command
	for range 1 + h.rng.IntN(5) {
		cmds = append(cmds, h.command())
	}
	if h.often(5) {
		v := h.db.view()
		for _, cmd := range cmds {
			if _, err := h.db.decide(v, cmd); err != nil {
				h.t.Fatal(err)
			}
		}
		h.settleWorkers()
		return
	}
	h.commit(cmds...)
}

// commit decides commands on one view and checks what has become of them: the
// same as if each had been decided on a view of its own, and a sound state.
func (h *history) commit(cmds ...Command) []decided {
	h.t.Logf("%+v", cmds)
	h.db.now = h.db.now.Add(time.Second)
	alone, before := h.db.clone(), len(h.db.events)
	outcomes, err := h.db.commit(cmds...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.commands += len(cmds)
	for i, cmd := range cmds {
		one, err := alone.commit(cmd)
		if err != nil {
			h.t.Fatalf("alone: %v", err)
		}
		if !reflect.DeepEqual(one[0].Answer, outcomes[i].Answer) || !errors.Is(one[0].Err, outcomes[i].Err) {
			h.t.Fatalf("%T was answered with %+v among others, with %+v alone", cmd, outcomes[i], one[0])
		}
		h.note(cmd, outcomes[i])
	}
	h.compare(alone, before)
	if err := h.db.check(); err != nil {
		h.t.Fatalf("%v", err)
	}
	if err := h.db.checkReplay(); err != nil {
		h.t.Fatalf("%v", err)
	}
	h.checkDelivery()
	h.settleWorkers()
	return outcomes
}

// compare holds two databases that the same commands were written to
// against each other; up to the event before they were one.
func (h *history) compare(alone *database, before int) {
	alone.writes = h.db.writes
	for row := range alone.waits {
		alone.waits[row] = h.db.waits[row]
	}
	same := maps.Equal(h.db.tasks, alone.tasks) && maps.Equal(h.db.calls, alone.calls) && maps.Equal(h.db.runs, alone.runs) &&
		maps.Equal(h.db.waits, alone.waits) && maps.Equal(h.db.timers, alone.timers) &&
		maps.Equal(h.db.ready, alone.ready) && maps.Equal(h.db.attempts, alone.attempts) && maps.Equal(h.db.callbacks, alone.callbacks) &&
		reflect.DeepEqual(h.db.session, alone.session) && reflect.DeepEqual(h.db.approvals, alone.approvals) && reflect.DeepEqual(h.db.inbox, alone.inbox) &&
		reflect.DeepEqual(h.db.events[before:], alone.events[before:])
	for id := range h.db.tasks {
		same = same && slices.EqualFunc(h.db.messages[id], alone.messages[id], func(a, b Message) bool { return a.ID == b.ID })
	}
	if !same {
		h.t.Fatalf("commands decided together and alone differ:\n%+v\n%+v", h.db, alone)
	}
}

// note remembers what was acknowledged.
func (h *history) note(cmd Command, d decided) {
	switch answer := d.Answer.(type) {
	case *Claimed:
		c := cmd.(Claim)
		h.workers = append(h.workers, &worker{task: c.Task, token: c.Token})
	case Cleared:
		h.forget(answer)
	case Sent:
		h.said[cmd.(Send).Message[0].(Text).Text] = answer.Task
	case Stored:
		if c, ok := cmd.(SpawnCalls); ok {
			h.noteShells(c, answer.Launched)
		}
	case Spawned:
		if _, there := h.db.tasks[answer.Task]; !there {
			h.t.Fatalf("task %s was acknowledged and is not there", answer.Task)
		}
	}
}

// forget takes what was cleared from what has to be delivered: all that was said
// to the task and is not with it any more.
func (h *history) forget(c Cleared) {
	there := map[string]bool{}
	note := func(blocks []Block) {
		if len(blocks) > 0 {
			if text, ok := blocks[0].(Text); ok {
				there[text.Text] = true
			}
		}
	}
	for _, m := range h.db.messages[c.Task] {
		note(m.Blocks)
	}
	for _, e := range h.db.inboxOf(c.Task) {
		note(e.Blocks)
	}
	gone := 0
	for text, to := range h.said {
		if to == c.Task && !there[text] {
			delete(h.said, text)
			gone++
		}
	}
	if gone > c.Messages {
		h.t.Fatalf("%d messages to task %s are gone, %d were cleared", gone, c.Task, c.Messages)
	}
}

// checkDelivery: what was said to a task is in its transcript or its inbox
// once, in the order in which it was said.
func (h *history) checkDelivery() {
	seen := map[string]TaskID{}
	note := func(to TaskID, blocks []Block, last string) string {
		text, ok := blocks[0].(Text)
		if !ok || !strings.HasPrefix(text.Text, "say ") {
			return last
		}
		if _, twice := seen[text.Text]; twice || text.Text <= last {
			h.t.Fatalf("%q was delivered after %q, before: %t", text.Text, last, twice)
		}
		seen[text.Text] = to
		return text.Text
	}
	for id := range h.db.tasks {
		last := ""
		for _, m := range h.db.messages[id] {
			if m.Role == RoleUser && len(m.Blocks) > 0 {
				last = note(id, m.Blocks, last)
			}
		}
		for _, e := range h.db.inboxOf(id) {
			if len(e.Blocks) > 0 {
				last = note(id, e.Blocks, last)
			}
		}
	}
	for text, to := range h.said {
		if seen[text] != to {
			h.t.Fatalf("%q was accepted for %s and is with %s", text, to, seen[text])
		}
	}
}

// settleWorkers lets the workers know which of their requests was taken last.
func (h *history) settleWorkers() {
	for _, w := range h.workers {
		if t := h.db.tasks[w.task]; t.State == StateRunning && t.Token() == w.token {
			w.seq, w.attach = t.LastSeq, t.Attach
		}
	}
}

func (h *history) text() string {
	h.texts++
	return fmt.Sprintf("say %05d", h.texts)
}

// aTask draws any task.
func (h *history) aTask() TaskID {
	return oneOf(h, byID(h.db.tasks))
}

func byID[V any](rows map[TaskID]V) []TaskID {
	return slices.SortedFunc(maps.Keys(rows), func(a, b TaskID) int { return bytes.Compare(a[:], b[:]) })
}

// command draws something that somebody might ask for.
func (h *history) command() Command {
	return pick(h,
		weighted[func() Command]{60, h.work},
		weighted[func() Command]{25, h.claim},
		weighted[func() Command]{h.hazard, h.lose},
		weighted[func() Command]{6, h.send},
		weighted[func() Command]{4, h.spawn},
		weighted[func() Command]{4, h.expire},
		weighted[func() Command]{1, h.cancel},
		weighted[func() Command]{3, h.background},
		weighted[func() Command]{2, h.backgroundCommands},
		weighted[func() Command]{8, h.decision},
		weighted[func() Command]{2, h.clearInbox},
		weighted[func() Command]{1, h.rare},
		weighted[func() Command]{1, h.create},
		weighted[func() Command]{3, h.branch},
		weighted[func() Command]{1, h.selects},
		weighted[func() Command]{4, h.callback},
	)()
}

func (h *history) cancel() Command {
	if h.often(20) {
		return Cancel{Detail: "enough"}
	}
	c := Cancel{Task: h.aTask()}
	if h.often(30) {
		c.Run = h.db.tasks[c.Task].Run
	}
	return c
}

func (h *history) clearInbox() Command {
	c := ClearInbox{News: h.often(20)}
	if h.often(70) {
		c.Task = h.aTask()
	}
	return c
}

// rare is what ends a session or names it.
func (h *history) rare() Command {
	return pick(h,
		weighted[Command]{30, ChangeSession{Title: strings.Repeat("t", h.rng.IntN(3))}},
		weighted[Command]{10, ChangeSession{Budget: &Budget{Tokens: int64(h.rng.IntN(6)) * 100, ModelCalls: int64(h.rng.IntN(3)) * 10}}},
		weighted[Command]{2, CloseSession{Detail: "enough"}},
		weighted[Command]{1, DeleteSession{IdleFor: time.Duration(h.rng.IntN(5)) * time.Second}},
		weighted[Command]{1, DeleteSession{}},
	)
}

func (h *history) background() Command { return Background{Task: h.aTask()} }

func (h *history) create() Command {
	return CreateSession{ID: h.db.session.ID, Tenant: "acme", Agent: boss, Limits: DefaultLimits()}
}

func (h *history) send() Command {
	text := h.text()
	if h.often(5) {
		text += strings.Repeat("x", 100)
	}
	s := Send{Message: h.chance(95, []Block{Text{Text: text}}), Source: h.source(), Interrupt: h.often(30)}
	if h.often(60) {
		s.Task = h.aTask()
	}
	return s
}

func (h *history) spawn() Command {
	return SpawnTask{Parent: h.aTask(), Child: h.child(), Notify: h.often(70), Source: h.source()}
}

func (h *history) child() Child {
	agent := pick(h, weighted[*Agent]{15, scout}, weighted[*Agent]{8, careful}, weighted[*Agent]{2, brittle}, weighted[*Agent]{1, boss}, weighted[*Agent]{1, nil})
	c := Child{Agent: agent, AgentName: "x", Description: "d", Fork: h.often(25)}
	if h.often(20) {
		c.Timeout = time.Duration(1+h.rng.IntN(8)) * time.Second
	}
	if h.often(10) {
		c.Deadline = h.db.now.Add(time.Duration(h.rng.IntN(60)) * time.Second)
	}
	if h.often(97) {
		c.Prompt = h.text()
	}
	if h.often(10) {
		c.MaxIterations = h.rng.IntN(16) - 1
	}
	if h.often(10) {
		c.Context = []string{strings.Repeat("c", 1+h.rng.IntN(102))}
	}
	switch n := h.rng.IntN(20); {
	case n == 0:
		c.Model, c.NoModel = "nonsense", "nonsense"
	case n < 5:
		c.Model, c.Pin = "fast", ModelPin{Provider: "p", Name: "m"}
	case n < 7:
		c.Model = InheritModel
	}
	return c
}

// claim takes a ready run, now and then under an epoch that has passed.
func (h *history) claim() Command {
	if len(h.db.ready) == 0 {
		return h.work()
	}
	id := oneOf(h, byID(h.db.ready))
	epoch := h.db.ready[id].Epoch
	if h.often(5) {
		epoch--
	}
	return Claim{Task: id, Token: Token{epoch, uint64(len(h.db.events))}, Worker: "w"} //nolint:gosec // small
}

func (h *history) lose() Command {
	if len(h.db.attempts) == 0 {
		return Redeliver{Task: h.aTask(), Epoch: 1, Blame: true}
	}
	id := oneOf(h, byID(h.db.attempts))
	epoch := h.db.attempts[id].Epoch
	if h.often(5) {
		epoch--
	}
	r := Redeliver{Task: id, Epoch: epoch, Blame: h.often(80)}
	if h.often(50) {
		r.Attach = h.db.attempts[id].Attach - h.rng.IntN(2)
	}
	return r
}

// expire fires a timer, or one that was taken away a moment ago.
func (h *history) expire() Command {
	keys := callKeys(h.db.timers)
	if len(keys) == 0 {
		return Expire{Task: h.aTask(), Ref: CallRef{h.rng.IntN(5), 9}}
	}
	key := oneOf(h, keys)
	return Expire{Task: key.Task, Ref: key.Ref}
}

func callKeys[V any](rows map[CallKey]V) []CallKey {
	return slices.SortedFunc(maps.Keys(rows), func(a, b CallKey) int {
		return cmp.Or(bytes.Compare(a.Task[:], b.Task[:]), a.Ref.Message-b.Ref.Message, a.Ref.Block-b.Ref.Block)
	})
}
