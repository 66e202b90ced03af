package tree

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestABudgetIsKept: whatever the order in which the runs of a tree are claimed and call a
// model, all that calls of one size use is less than the budget and one call. If it is enough
// for the tree all of it completes.
func TestABudgetIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &spender{
			t: t, db: newDatabase(), told: map[TaskID]Stored{},
			children: rapid.IntRange(1, 10).Draw(t, "children"), calls: rapid.IntRange(1, 4).Draw(t, "calls of each"),
		}
		limits := DefaultLimits()
		limits.Running = rapid.IntRange(1, 12).Draw(t, "running")
		call := said(nil, nil).Usage.Total()
		needs := call * int64(2+s.children*s.calls)
		budget := Budget{Tokens: rapid.Int64Range(1, needs+call).Draw(t, "budget")}
		s.run(limits, budget)
		used := s.db.session.Usage.Total()
		if used >= budget.Tokens+call {
			t.Fatalf("%d tokens were used, the budget is %d", used, budget.Tokens)
		}
		for _, task := range s.db.tasks {
			if budget.Tokens > needs-call && task.State != StateCompleted || task.State != StateCompleted && used < budget.Tokens {
				t.Fatalf("task %s ended %s with %d of %d tokens used", task.ID, task.State, used, budget.Tokens)
			}
		}
	})
}

// TestABudgetOfCallsIsKept: all runs of a tree together never make more calls than their budget
// has, whatever their order, and none less if they need them.
func TestABudgetOfCallsIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &spender{
			t: t, db: newDatabase(), told: map[TaskID]Stored{},
			children: rapid.IntRange(1, 10).Draw(t, "children"), calls: rapid.IntRange(1, 4).Draw(t, "calls of each"),
		}
		limits := DefaultLimits()
		limits.Running = rapid.IntRange(1, 12).Draw(t, "running")
		needs := int64(2 + s.children*s.calls)
		budget := rapid.Int64Range(1, needs+1).Draw(t, "budget")
		s.run(limits, Budget{ModelCalls: budget})
		if s.made != min(needs, budget) || s.db.session.ModelCalls != s.made {
			t.Fatalf("%d calls were made and %d counted, of %d that the tree needs; the budget is %d",
				s.made, s.db.session.ModelCalls, needs, budget)
		}
		for _, task := range s.db.tasks {
			if completed := task.State == StateCompleted; !completed && budget >= needs {
				t.Fatalf("task %s ended %s", task.ID, task.State)
			}
		}
	})
}

// spender drives the runs of a tree as workers do: the root spawns children, each of which
// makes some calls of the model.
type spender struct {
	t               *rapid.T
	db              *database
	children, calls int
	told            map[TaskID]Stored // what a run was told at its last boundary
	made            int64             // calls of the model
}

// run opens a session and lets all of its tree end.
func (s *spender) run(limits Limits, budget Budget) {
	s.must(CreateSession{ID: SessionID{1}, Agent: boss, Message: texts([]string{"Go."}), Limits: limits, Budget: budget})
	for !s.ended() {
		s.step(rapid.SampledFrom(byID(s.db.tasks)).Draw(s.t, "task"))
	}
}

func (s *spender) ended() bool { return s.db.session.liveRuns() == 0 }

func (s *spender) do(cmd Command) (Answer, error) {
	done, err := s.db.commit(cmd)
	if err == nil {
		err = s.db.check()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return done[0].Answer, done[0].Err
}

func (s *spender) must(cmd Command) Answer {
	answer, err := s.do(cmd)
	if err != nil {
		s.t.Fatalf("%+v: %v", cmd, err)
	}
	return answer
}

// step lets a task do what comes next, if it can.
func (s *spender) step(id TaskID) {
	t := s.db.tasks[id]
	f := From{Task: id, Token: t.Token(), Attach: t.Attach, Seq: t.LastSeq + 1}
	switch told := s.told[id]; {
	case t.State == StatePending:
		answer, err := s.do(Claim{Task: id, Token: Token{t.Epoch, 1}, Worker: "w"})
		if claimed, ok := answer.(*Claimed); ok {
			s.told[id] = Stored{Spent: claimed.Spent}
		} else if !errors.Is(err, ErrCapped) {
			s.t.Fatal(err)
		}
	case t.State != StateRunning:
	case t.OpenCalls > 0:
		s.told[id] = s.must(CloseCall{From: f, Text: "x"}).(Stored)
	case told.Spent != "":
		s.must(End{From: f, Reason: ReasonBudgetExhausted})
	case told.Short:
		if on, ok := s.must(Park{From: f}).(Stored); ok {
			s.told[id] = on
		}
	default:
		s.call(&t, f)
	}
}

// call is one of the model, and what comes of it.
func (s *spender) call(t *Task, f From) {
	s.made++
	switch {
	case t.Depth == 0 && t.AllIterations == 0:
		asks, children := manyChildren(s.children)
		s.must(AppendAnswer{From: f, Message: asks})
		f.Seq++
		s.must(SpawnCalls{From: f, Children: children})
		f.Seq++
		s.must(Park{From: f})
	case t.Depth > 0 && t.AllIterations < s.calls-1:
		s.must(AppendAnswer{From: f, Message: said(nil, []string{"read"})})
	default:
		answer := said([]string{"done"}, nil)
		s.must(End{From: f, Answer: &answer})
	}
}

// pays takes in what an event says of a session that was opened without a budget.
func (s *Session) pays(kind EventKind) {
	switch k := kind.(type) {
	case MessageAppended:
		s.Usage = s.Usage.Add(k.Usage)
	case SessionChanged:
		if k.Change == SessionBudgeted {
			s.Budget = k.Budget
		}
	}
}

// TestMakingWayIsNoLoss: an attempt that ends since its run makes way has lost no worker.
func TestMakingWayIsNoLoss(t *testing.T) {
	t.Parallel()
	d := &decision{view: NewView(&Session{ID: SessionID{1}, Running: 1}), env: Env{NewID: func() [16]byte { return [16]byte{} }}}
	task := &Task{
		Session: SessionID{1}, ID: TaskID{2}, Kind: KindAgent,
		CurrentRun: CurrentRun{State: StateRunning}, CurrentAttempt: CurrentAttempt{Worker: "w"},
	}
	d.view.PutTask(task.ID, task)
	d.yieldForBudget(d.view.task(task.ID))
	passed := d.view.Changes().Phases
	if len(passed) != 1 || passed[0].Phase != PhaseAttempt || passed[0].Next != StatePending || passed[0].Lost {
		t.Errorf("it is told as %+v", passed)
	}
}

// TestNothingIsToldUnmeasured: what nobody is told of is not put together.
func TestNothingIsToldUnmeasured(t *testing.T) {
	t.Parallel()
	d := &decision{view: NewView(&Session{ID: SessionID{1}, Running: 1}), env: Env{SkipMetrics: true, NewID: func() [16]byte { return [16]byte{} }}}
	task := &Task{
		Session: SessionID{1}, ID: TaskID{2}, Kind: KindAgent,
		CurrentRun: CurrentRun{State: StateRunning, Caller: TaskID{3}, Call: CallRef{Message: 4}}, CurrentAttempt: CurrentAttempt{Worker: "w"},
	}
	d.view.PutTask(task.ID, task)
	d.yieldForBudget(d.view.task(task.ID))
	d.recordCallPhase(task)
	d.recordRunPhase(task)
	d.recordSpawn(KindAgent, ErrCapped)
	if c := d.view.Changes(); len(c.Phases)+len(c.SpawnOutcomes) > 0 || c.Tasks[task.ID].State != StatePending {
		t.Errorf("it is told of %+v and %+v", c.Phases, c.SpawnOutcomes)
	}
}

// TestNothingIsReservedWithoutABudget, nor known of calls when there is one again.
func TestNothingIsReservedWithoutABudget(t *testing.T) {
	t.Parallel()
	d := &decision{view: NewView(&Session{ID: SessionID{1}, Running: 2, Budget: Budget{Tokens: 100}}), env: Env{NewID: func() [16]byte { return [16]byte{} }}}
	d.view.PutTask(TaskID{}, &Task{Session: SessionID{1}})
	d.session().updateEstimate(Usage{Input: 10})
	if got := d.session().Reserved(); got.Tokens != 20 || got.ModelCalls != 0 {
		t.Errorf("%+v is reserved", got)
	}
	d.setBudget(Budget{ModelCalls: 3})
	if got := d.session().Reserved(); got.ModelCalls != 2 {
		t.Errorf("%+v is reserved", got)
	}
	d.setBudget(Budget{})
	if got := d.session().Reserved(); got != (Budget{}) {
		t.Errorf("%+v is reserved", got)
	}
}

// TestMicros: dollars are rounded up, so that a budget is not smaller than was said.
func TestMicros(t *testing.T) {
	t.Parallel()
	for dollars, want := range map[float64]int64{0: 0, 0.5: 500_000, 1e-9: 1, maxDollars: 1e15} {
		if got, err := Micros(dollars); err != nil || got != want {
			t.Errorf("%g: %d, %v, want %d", dollars, got, err, want)
		}
	}
	for _, dollars := range []float64{-1, maxDollars + 1, math.Inf(1), math.NaN()} {
		if got, err := Micros(dollars); err == nil {
			t.Errorf("%g: %d", dollars, got)
		}
	}
}
