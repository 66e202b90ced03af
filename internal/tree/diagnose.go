package tree

import "fmt"

// SessionRows are all stored rows of a session that the rules are about, as of one moment.
type SessionRows struct {
	Session   Session
	Tasks     []Task
	OpenCalls []Call // those that are not closed
	Ready     []Ready
	Attempts  []Attempt
	Inbox     []InboxEntry
	Runs      []Run
	Callbacks []Callback
	Events    []EventHead // in the order of their numbers
	Approvals []Approval  // those that are open
}

// EventHead is the part of an event that the rules are about.
type EventHead struct {
	Seq             int64
	Task            TaskID
	Run             int
	Started, Result bool
}

// Violation is a rule that a stored session breaks.
type Violation struct {
	Task   TaskID // zero: the session as a whole
	Rule   string
	Detail string
}

// Diagnose checks a session against the rules that every commit keeps. Each violation is a defect,
// or damage from outside.
func Diagnose(rows *SessionRows) []Violation {
	e := &examination{rows: rows, tasks: map[TaskID]*Task{}}
	for i := range rows.Tasks {
		e.tasks[rows.Tasks[i].ID] = &rows.Tasks[i]
	}
	e.counts()
	e.tree()
	e.shells()
	e.delivery()
	e.calls()
	e.events()
	e.hooks()
	e.approvals()
	return e.found
}

// examination checks one session.
type examination struct {
	rows  *SessionRows
	tasks map[TaskID]*Task
	found []Violation
}

func (e *examination) must(ok bool, task TaskID, rule, format string, args ...any) {
	if !ok {
		e.found = append(e.found, Violation{Task: task, Rule: rule, Detail: fmt.Sprintf(format, args...)})
	}
}

// counts: the session's counts match its tasks.
func (e *examination) counts() {
	s := &e.rows.Session
	want := Session{}
	for _, t := range e.rows.Tasks {
		want.count(t.Kind, t.State, 1)
		want.Usage = want.Usage.Add(t.Usage)
		e.must(t.AllIterations >= t.Iterations, t.ID, "a task counts its model calls", "%d in all, %d in its run", t.AllIterations, t.Iterations)
	}
	const rule = "the session's counts are those of its tasks"
	e.must(s.Total == len(e.rows.Tasks), TaskID{}, rule, "it counts %d tasks of %d", s.Total, len(e.rows.Tasks))
	e.must(s.Pending == want.Pending && s.Running == want.Running && s.Waiting == want.Waiting && s.Shells == want.Shells, TaskID{}, rule,
		"it counts %d pending, %d running, %d waiting, %d commands; they are %d, %d, %d, %d",
		s.Pending, s.Running, s.Waiting, s.Shells, want.Pending, want.Running, want.Waiting, want.Shells)
	e.must(s.Usage == want.Usage, TaskID{}, "the session's usage is the sum of its tasks'", "%+v, the sum is %+v", s.Usage, want.Usage)
	e.must(s.ClosedAt.IsZero() || s.liveRuns() == 0, TaskID{}, "nothing runs in a closed session",
		"%d pending, %d running, %d waiting, %d commands", s.Pending, s.Running, s.Waiting, s.Shells)
	e.must(s.DeletedAt.IsZero() || !s.ClosedAt.IsZero(), TaskID{}, "a session is closed before it is deleted", "it is open")
	e.must(s.Running <= s.Limits.Running, TaskID{}, "caps hold", "%d tasks run, the cap is %d", s.Running, s.Limits.Running)
	e.must(s.Total <= s.Limits.Total, TaskID{}, "caps hold", "%d tasks, the cap is %d", s.Total, s.Limits.Total)
}

// tree: there is one root, and every other task except branches has its parent.
func (e *examination) tree() {
	children := map[TaskID]int{}
	live := map[TaskID]int{}
	for i := range e.rows.Tasks {
		t := &e.rows.Tasks[i]
		children[t.Parent]++
		e.must((t.Pin.Provider == "") == (t.Pin.Name == ""), t.ID, "a pinned model has a provider and a name", "%+v", t.Pin)
		if t.Background && t.State.Active() && !t.Caller.IsZero() {
			live[t.Caller]++
		}
		if t.ID == e.rows.Session.Root {
			e.must(t.Parent.IsZero() && t.Depth == 0, t.ID, "a tree has one root", "the root has the parent %s", t.Parent)
			continue
		}
		if t.Branch == BranchHuman {
			e.must(t.Parent.IsZero() && t.Depth == 0, t.ID, "a branch has no parent", "its parent is %s, its depth %d", t.Parent, t.Depth)
			continue
		}
		parent := e.tasks[t.Parent]
		e.must(parent != nil && t.Depth == parent.Depth+1, t.ID, "a task is one level below its parent", "parent %s, depth %d", t.Parent, t.Depth)
		e.must(t.isShell() || t.Depth <= e.rows.Session.Limits.Depth, t.ID, "caps hold", "depth %d", t.Depth)
	}
	for i := range e.rows.Tasks {
		t := &e.rows.Tasks[i]
		e.base(t)
		e.must(t.Children == children[t.ID], t.ID, "a task counts its children", "%d, there are %d", t.Children, children[t.ID])
		e.must(t.Children <= e.rows.Session.Limits.Width, t.ID, "caps hold", "%d children", t.Children)
		e.must(t.LiveBackground == live[t.ID], t.ID, "a task counts its background children", "%d, there are %d", t.LiveBackground, live[t.ID])
	}
}

// shells: a command runs once, in the worker that has asked for it, and has nothing below it.
func (e *examination) shells() {
	for i := range e.rows.Tasks {
		t := &e.rows.Tasks[i]
		e.must(t.Release == 0 || t.State == StateRunning && t.Release == t.OpenMessage, t.ID,
			"only commands of the message that is running are moved to the background", "message %d, the run is %s at message %d", t.Release, t.State, t.OpenMessage)
		if !t.isShell() {
			e.must(t.Output == "", t.ID, "only commands have printed output", "%d bytes", len(t.Output))
			continue
		}
		e.must(t.Run == 1 && t.Epoch == 1 && (t.State == StateRunning || t.State.Terminal()), t.ID,
			"a command runs once", "run %d, epoch %d, %s", t.Run, t.Epoch, t.State)
		e.must(t.Children == 0 && t.Inbox == 0 && t.OpenCalls == 0 && t.Background, t.ID,
			"a command has no children, inbox or calls, and runs in the background", "%d children, inbox %d, background: %t", t.Children, t.Inbox, t.Background)
		e.must(t.State.Terminal() == (t.Answer > 0), t.ID, "a command has an answer once it has ended", "it is %s, the answer is message %d", t.State, t.Answer)
	}
}

// base: the message that a conversation continues from exists, and is older than the conversation.
func (e *examination) base(t *Task) {
	b := t.Base
	e.must(b.Kind != BaseNone || b == Base{}, t.ID, "a conversation continues from messages that exist", "it has none, and a base %+v", b)
	e.must((b.Kind == BaseApart || b.Kind == BaseBranch) == (t.Branch == BranchHuman), t.ID,
		"a branch continues from a message", "branch %d, base %+v", t.Branch, b)
	if b.Kind != BaseNone {
		base := e.tasks[b.Task]
		e.must(base != nil && b.Message >= 0 && b.Message < base.NextOrdinal, t.ID,
			"a conversation continues from messages that exist", "message %d of %s", b.Message, b.Task)
		e.must(t.NextOrdinal >= b.First(), t.ID, "a conversation continues from messages that exist", "at message %d, its first is %d", t.NextOrdinal, b.First())
	}
	e.must(t.Compacted < t.NextOrdinal, t.ID, "a summary is a message", "message %d of %d", t.Compacted, t.NextOrdinal-1)
	current := e.rows.Session.CurrentTask()
	e.must(t.ID != current || t.Parent.IsZero(), t.ID, "messages go to the root or to a branch", "it is a sub-agent")
}

// delivery: a pending run is offered, a running run has an attempt, and no other run has either.
func (e *examination) delivery() {
	ready, held := map[TaskID]int64{}, map[TaskID]int64{}
	for _, r := range e.rows.Ready {
		ready[r.Task] = r.Epoch
	}
	for _, a := range e.rows.Attempts {
		held[a.Task] = a.Epoch
	}
	for i := range e.rows.Tasks {
		t := &e.rows.Tasks[i]
		epoch, offered := ready[t.ID]
		e.must(offered == (t.State == StatePending), t.ID, "a run is offered while it is pending", "it is %s, offered: %t", t.State, offered)
		e.must(!offered || epoch == t.Epoch, t.ID, "a run is offered with its current epoch", "%d, it is at %d", epoch, t.Epoch)
		epoch, running := held[t.ID]
		e.must(running == (t.State == StateRunning), t.ID, "a run has an attempt while it is running", "it is %s, attempt: %t", t.State, running)
		e.must(!running || epoch == t.Epoch, t.ID, "an attempt has the epoch of its run", "%d, it is at %d", epoch, t.Epoch)
	}
}

// calls: whatever waits, waits for something that will happen.
func (e *examination) calls() {
	open, inbox := map[TaskID]int{}, map[TaskID]int{}
	for i := range e.rows.OpenCalls {
		c := &e.rows.OpenCalls[i]
		open[c.Task]++
		if c.State != CallWaiting {
			continue
		}
		child := e.tasks[c.Child.Task]
		e.must(c.Join <= JoinMax, c.Task, "a call has a known join policy", "call %v joins by %d", c.Ref, c.Join)
		e.must(child != nil && child.State.Active() && child.Run == c.Child.Run, c.Task,
			"a waiting call waits for a run that has not ended", "call %v waits for run %d of %s", c.Ref, c.Child.Run, c.Child.Task)
	}
	for i := range e.rows.Inbox {
		inbox[e.rows.Inbox[i].Task]++
	}
	for i := range e.rows.Tasks {
		t := &e.rows.Tasks[i]
		e.must(t.OpenCalls == open[t.ID], t.ID, "a task counts its open calls", "%d, there are %d", t.OpenCalls, open[t.ID])
		e.must(t.State.Active() || open[t.ID] == 0, t.ID, "a run that has ended has no open calls", "%d", open[t.ID])
		e.must(t.Inbox == inbox[t.ID], t.ID, "a task counts its inbox", "%d, there are %d", t.Inbox, inbox[t.ID])
		if t.State == StateWaiting {
			satisfied := t.Wait.Kind == WaitCalls && t.OpenCalls == 0 || t.Wait.Kind == WaitBackground && t.LiveBackground == 0 || t.Wait.Kind == WaitNone
			e.must(!satisfied, t.ID, "a parked run waits for something", "kind %d, %d open calls, %d in the background", t.Wait.Kind, t.OpenCalls, t.LiveBackground)
		}
	}
}

// hooks: a stop is delayed only so many times, and only ended runs have callbacks.
func (e *examination) hooks() {
	for i := range e.rows.Tasks {
		t := &e.rows.Tasks[i]
		e.must(t.StopHooked >= 0 && t.StopHooked <= MaxStopHooks, t.ID, "hooks block a stop a limited number of times",
			"%d times, the limit is %d", t.StopHooked, MaxStopHooks)
		e.must(t.Depth > 0 || !t.StartHooked && t.StopHooked == 0, t.ID, "only sub-agents have hooks", "the root has run hooks")
	}
	for _, c := range e.rows.Callbacks {
		t := e.tasks[c.Task]
		e.must(t != nil && (c.Run < t.Run || c.Run == t.Run && t.State.Terminal()), c.Task,
			"a callback belongs to a run that has ended", "run %d", c.Run)
	}
}

// events: the log has no gap; each run has one start, before all its other events, and one result,
// after all of them.
func (e *examination) events() {
	type life struct{ started, ended bool }
	lives := map[ChildRun]life{}
	var last int64
	for _, ev := range e.rows.Events {
		e.must(ev.Seq == last+1, ev.Task, "the log has no gap", "event %d comes after %d", ev.Seq, last)
		last = ev.Seq
		run := ChildRun{ev.Task, ev.Run}
		l := lives[run]
		if ev.Run > 0 {
			e.must(l.started != ev.Started, ev.Task, "a run has one start, which is its first event", "event %d of run %d", ev.Seq, ev.Run)
			e.must(!l.ended, ev.Task, "a run's result is its last event", "event %d of run %d", ev.Seq, ev.Run)
		}
		lives[run] = life{l.started || ev.Started, l.ended || ev.Result}
	}
	e.must(last == e.rows.Session.NextSeq-1, TaskID{}, "the log has no gap", "it ends with %d, the session is at %d", last, e.rows.Session.NextSeq)
	outcomes := map[ChildRun]bool{}
	for _, r := range e.rows.Runs {
		outcomes[ChildRun{r.Task, r.Run}] = true
	}
	for i := range e.rows.Tasks {
		t := &e.rows.Tasks[i]
		for run := 1; run <= t.Run; run++ {
			key := ChildRun{t.ID, run}
			over := run < t.Run || t.State.Terminal()
			e.must(lives[key].started && lives[key].ended == over && outcomes[key] == over, t.ID,
				"a run has one start and, once it is over, one result", "run %d: started %t, result %t, outcome %t, over %t",
				run, lives[key].started, lives[key].ended, outcomes[key], over)
		}
	}
}
