package tree

import (
	"cmp"
	"time"
)

// All state transitions of a run are in this file. Each is guarded: a transition from a state that
// does not allow it is a defect and panics, because decide has to check first.

// requester says who asks for a run: a call of a task, or a client (by is zero).
type requester struct {
	by         TaskID
	call       CallRef
	background bool
	deadline   time.Time // of the run; zero: none
	source     string    // the external source that the run acts for; empty: none
	trace      Trace     // the parent in the trace; zero: the run that asks for it
}

// accept starts the next run of a task that has no active run: it becomes pending. Two things are
// kept from the last run: its state, for the counts in move, and the authority, which a root has
// for good.
func (d *decision) accept(t *Task, a requester) {
	if t.State.Active() {
		panic("tree: accept of a task whose run has not ended")
	}
	t.CurrentRun = CurrentRun{
		Run: t.Run + 1, State: t.State, MovedAt: t.MovedAt, Authority: t.Authority,
		Caller: a.by, Call: a.call, Background: a.background, AcceptedAt: d.env.Now, Deadline: a.deadline,
	}
	if t.Background || !a.by.IsZero() && d.view.task(a.by).Priority > 0 {
		t.Priority = priorityBackground
	}
	if t.Background && !t.Caller.IsZero() {
		caller := d.view.task(t.Caller)
		caller.LiveBackground++
		if caller.State == StateWaiting && caller.Wait.Kind == WaitBackground {
			caller.Wait.Total++
		}
		d.view.touchTask(caller)
	}
	t.Trace = d.traceOf(t, a)
	d.authorize(t, a)
	d.move(t, StatePending)
	started := Started{
		Parent: t.Parent, Kind: t.Kind, Branch: t.Branch, Depth: t.Depth, Agent: t.Agent,
		Description: t.Description, Background: t.Background,
	}
	if t.Branch == BranchSubagent {
		started.Base = t.Base
	}
	if t.Caller == t.Parent {
		started.Call = t.Call
	}
	d.emit(t, started)
	if t.Background {
		d.recordCallPhase(t)
	}
	if !t.Deadline.IsZero() {
		d.setTimer(t, deadlineRef, t.Deadline)
	}
	d.offer(t, d.startPrecedence(t))
}

// claim gives a pending run to a worker.
func (d *decision) claim(t *Task, nonce uint64, worker string) {
	if t.State != StatePending {
		panic("tree: claim of a run that is not pending")
	}
	t.CurrentAttempt = CurrentAttempt{Nonce: nonce, Worker: worker, ClaimedAt: d.env.Now}
	if t.StartedAt.IsZero() {
		t.StartedAt = d.env.Now
	}
	d.move(t, StateRunning)
	d.view.dropReady(t)
	d.attach(t)
	if t.Timeout > 0 {
		d.setTimer(t, timeoutRef, t.timeoutDue(d.env.Now))
	}
	d.emit(t, Dispatched{Epoch: t.Epoch, Worker: worker})
}

// attach gives the attempt to a stream of this replica. Requests over other streams are stale from
// then on.
func (d *decision) attach(t *Task) {
	t.Attach++
	t.Replica = d.env.Replica
	d.view.touchTask(t)
	set(&d.view.changes.Attempts, t.ID, &Attempt{
		Task: t.ID, Epoch: t.Epoch, Attach: t.Attach, Replica: t.Replica, Worker: t.Worker, Nonce: t.Nonce, At: d.env.Now,
	})
}

// park takes a running run from its worker until what it waits for has arrived.
func (d *decision) park(t *Task, on ParkedOn) {
	if t.State != StateRunning {
		panic("tree: park of a run that is not running")
	}
	t.Wait = on
	d.move(t, StateWaiting)
	d.endAttempt(t)
	d.emit(t, Parked{On: on})
}

// wake makes a parked run pending again.
func (d *decision) wake(t *Task) {
	if t.State != StateWaiting {
		panic("tree: wake of a run that is not parked")
	}
	t.Wait = ParkedOn{}
	d.move(t, StatePending)
	d.offer(t, precedenceStarted)
	d.emit(t, Readied{Cause: ReadySatisfied, Epoch: t.Epoch})
}

// yieldForBudget makes a run pending again, so that enough of the budget is left for the other runs
// with workers.
func (d *decision) yieldForBudget(t *Task) { d.reoffer(t, ReadyMadeWay, precedenceYielded) }

// redeliver makes a run whose worker was lost pending again.
func (d *decision) redeliver(t *Task) { d.reoffer(t, ReadyRedelivered, precedenceStarted) }

// reoffer takes a run from its worker and makes it pending again.
func (d *decision) reoffer(t *Task, cause ReadyCause, precedence int) {
	if t.State != StateRunning {
		panic("tree: a run is offered again that is not running")
	}
	d.transition(t, StatePending, cause == ReadyRedelivered)
	d.endAttempt(t)
	d.offer(t, precedence)
	d.emit(t, Readied{Cause: cause, Epoch: t.Epoch})
}

// finish ends a run and notifies everything that waits for it. A root with news starts its next run
// in the same step, so nothing is lost between two turns.
func (d *decision) finish(t *Task, state State, reason Reason, detail string) {
	if !t.State.Active() {
		panic("tree: finish of a run that is not active")
	}
	d.dropOpenCalls(t)
	if t.isShell() {
		d.appendOutput(t)
	}
	t.Wait, t.Reason, t.Detail, t.EndedAt = ParkedOn{}, reason, detail, d.env.Now
	running := t.State == StateRunning
	d.move(t, state)
	if running {
		d.endAttempt(t)
	}
	d.view.dropReady(t)
	if !t.Deadline.IsZero() {
		set(&d.view.changes.Timers, CallKey{t.ID, deadlineRef}, nil)
	}
	if !t.Background {
		d.recordCallPhase(t)
	}
	d.recordRunPhase(t)
	run := t.Ended()
	d.view.changes.Runs = append(d.view.changes.Runs, &run)
	result := Result{State: state, Reason: reason, Detail: detail, Usage: t.RunUsage, ToolUses: t.RunTools}
	if t.Answer > 0 && !run.Unfinished() {
		result.Message = t.Head
	}
	d.emit(t, result)
	d.requestCallback(t)
	d.settle(t)
	if t.Depth == 0 && t.Inbox > 0 && state != StateCancelled && (d.newsMayStartRun(t) || d.hasUserMessage(t)) {
		d.nextTurn(t)
	}
}

func (n *needs) finish(t *Task) {
	if t == nil {
		return
	}
	n.boundary(t)
	n.openCalls(t)
	n.openApprovals(t)
	n.settle(t)
}

// settle asks for everything that waits for a run.
func (n *needs) settle(t *Task) {
	if !t.Caller.IsZero() {
		n.boundary(n.task(t.Caller))
		if !t.Background {
			n.call(t.Caller, t.Call)
		}
	}
	for _, row := range n.watchers(t) {
		n.boundary(n.task(row.Task))
		n.call(row.Task, row.Ref)
	}
}

// newsMayStartRun reports whether news of children alone may start the next run of a root that has
// ended. It may not if the last run was poisoned, or if no model would see the news.
func (d *decision) newsMayStartRun(t *Task) bool {
	return t.Reason != ReasonPoisoned && d.session().spent() == ""
}

// nextTurn starts the root's next run with the messages in its inbox.
func (d *decision) nextTurn(t *Task) {
	var a requester
	for _, e := range d.view.inbox[t.ID] {
		a.trace = cmp.Or(a.trace, e.Trace)
	}
	d.accept(t, a)
	d.takeInbox(t)
}

// move changes the state of a run, and the session's counts with it.
func (d *decision) move(t *Task, to State) { d.transition(t, to, false) }

// transition is move for a run that may leave its state because its worker was lost.
func (d *decision) transition(t *Task, to State, lost bool) {
	s := d.session()
	s.count(t.Kind, t.State, -1)
	s.count(t.Kind, to, 1)
	d.recordStateLeft(t, to, lost)
	t.State, t.MovedAt = to, d.env.Now
	d.view.changes.Session = s
	d.view.touchTask(t)
}

// offer raises the epoch of the pending run and makes it ready for dispatch under that epoch.
func (d *decision) offer(t *Task, precedence int) {
	t.Epoch++
	set(&d.view.changes.Ready, t.ID, &Ready{Task: t.ID, Epoch: t.Epoch, Priority: t.Priority, Precedence: precedence, At: d.env.Now})
}

// A tree grows branch by branch, not level by level: started runs go before new ones, and of the
// new ones the deeper go first. So few agents are under way at once, a parent continues while its
// provider still caches its conversation, and the waiting runs are the children of a few agents
// instead of all.
const (
	precedenceStarted = 1 << 20 // a run that has started: higher than any depth
	precedenceYielded = 0       // a run that yields to others
)

// startPrecedence is the precedence of a run that has not started. A person speaks to a branch, or
// to the root of a tree that has grown, and waits for the answer, so it goes first. In a new
// session there is nothing else to order.
func (d *decision) startPrecedence(t *Task) int {
	if t.Depth == 0 && d.session().Total > 1 {
		return precedenceStarted
	}
	return max(0, t.Depth-1)
}

// priorityBackground is the priority of runs that nobody waits for, and of what they ask for.
const priorityBackground = 1

func (d *decision) setTimer(t *Task, ref CallRef, due time.Time) {
	d.view.callTimed = d.view.callTimed || ref.Message > 0
	set(&d.view.changes.Timers, CallKey{t.ID, ref}, &Timer{Task: t.ID, Ref: ref, Due: due})
}

// dropCallTimer deletes the timer of a call, if it may have one: most sessions have none.
func (d *decision) dropCallTimer(task TaskID, ref CallRef) {
	if d.view.callTimed {
		set(&d.view.changes.Timers, CallKey{task, ref}, nil)
	}
}

// timeoutDue is when a run that has been with its worker since a given time exceeds its timeout.
func (t *Task) timeoutDue(since time.Time) time.Time {
	due := since.Add(t.Timeout - t.Ran)
	if t.isShell() {
		due = due.Add(shellGrace)
	}
	return due
}

// endAttempt takes the run from its worker, whose further requests are stale.
func (d *decision) endAttempt(t *Task) {
	if t.Timeout > 0 {
		t.Ran += d.env.Now.Sub(t.ClaimedAt)
		set(&d.view.changes.Timers, CallKey{t.ID, timeoutRef}, nil)
	}
	t.CurrentAttempt = CurrentAttempt{}
	set(&d.view.changes.Attempts, t.ID, nil)
}
