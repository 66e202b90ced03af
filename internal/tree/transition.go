package tree

import (
	"cmp"
	"time"
)

// Every move of a run's state is in this file, each guarded: a move from a state
// that does not allow it is a defect and panics, since decide has to check first.

// requester says who wants a run: nobody but a client, or a call of a task.
type requester struct {
	by         TaskID
	call       CallRef
	background bool
	deadline   time.Time // of the run; zero: none
	source     string    // who outside it is for; empty: nobody
	trace      Trace     // below which it hangs; zero: below the run that asks for it
}

// accept starts the next run of a task that has none: it waits for a worker. Kept of the last
// one are its state, which move counts from, and the authority, which a root has for good.
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

// attach gives the attempt to a stream of this replica; what other streams say
// for it is stale from now on.
func (d *decision) attach(t *Task) {
	t.Attach++
	t.Replica = d.env.Replica
	d.view.touchTask(t)
	set(&d.view.changes.Attempts, t.ID, &Attempt{
		Task: t.ID, Epoch: t.Epoch, Attach: t.Attach, Replica: t.Replica, Worker: t.Worker, At: d.env.Now,
	})
}

// park takes a running run from its worker until what it waits for has come.
func (d *decision) park(t *Task, on ParkedOn) {
	if t.State != StateRunning {
		panic("tree: park of a run that is not running")
	}
	t.Wait = on
	d.move(t, StateWaiting)
	d.endAttempt(t)
	d.emit(t, Parked{On: on})
}

// wake makes a parked run wait for a worker again.
func (d *decision) wake(t *Task) {
	if t.State != StateWaiting {
		panic("tree: wake of a run that is not parked")
	}
	t.Wait = ParkedOn{}
	d.move(t, StatePending)
	d.offer(t, precedenceStarted)
	d.emit(t, Readied{Cause: ReadySatisfied, Epoch: t.Epoch})
}

// yieldForBudget makes a run wait for a worker again, so that there is enough of the budget left for
// the others that are with one.
func (d *decision) yieldForBudget(t *Task) { d.reoffer(t, ReadyMadeWay, precedenceYielded) }

// redeliver makes a run whose worker was lost wait for another.
func (d *decision) redeliver(t *Task) { d.reoffer(t, ReadyRedelivered, precedenceStarted) }

// reoffer takes a run from its worker and offers it to another.
func (d *decision) reoffer(t *Task, cause ReadyCause, precedence int) {
	if t.State != StateRunning {
		panic("tree: a run is offered again that is not running")
	}
	d.transition(t, StatePending, cause == ReadyRedelivered)
	d.endAttempt(t)
	d.offer(t, precedence)
	d.emit(t, Readied{Cause: cause, Epoch: t.Epoch})
}

// finish ends a run and tells everyone who waits for it. A root that has news
// starts its next run in the same step, so nothing slips between two turns.
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

// settle asks for all that wait for a run.
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
// ended: not if its last run was poisoned, and not if no model would see it.
func (d *decision) newsMayStartRun(t *Task) bool {
	return t.Reason != ReasonPoisoned && d.session().spent() == ""
}

// nextTurn starts the root's next run with what is in its inbox.
func (d *decision) nextTurn(t *Task) {
	var a requester
	for _, e := range d.view.inbox[t.ID] {
		a.trace = cmp.Or(a.trace, e.Trace)
	}
	d.accept(t, a)
	d.takeInbox(t)
}

// move changes the state and the session's counts with it.
func (d *decision) move(t *Task, to State) { d.transition(t, to, false) }

// transition is move for a run that may leave its state since its worker was lost.
func (d *decision) transition(t *Task, to State, lost bool) {
	s := d.session()
	s.count(t.Kind, t.State, -1)
	s.count(t.Kind, to, 1)
	d.recordStateLeft(t, to, lost)
	t.State, t.MovedAt = to, d.env.Now
	d.view.changes.Session = s
	d.view.touchTask(t)
}

// offer raises the epoch and makes the pending run ready for dispatch under it.
func (d *decision) offer(t *Task, precedence int) {
	t.Epoch++
	set(&d.view.changes.Ready, t.ID, &Ready{Task: t.ID, Epoch: t.Epoch, Priority: t.Priority, Precedence: precedence, At: d.env.Now})
}

// A tree grows branch by branch rather than level by level: what has begun goes on before
// anything else begins, and what is deeper begins first. So few agents are under way at once, a
// parent goes on while its provider still has its conversation in the cache, and what waits for
// a worker is a few agents' children rather than those of all.
const (
	precedenceStarted = 1 << 20 // the precedence of a run that has begun: more than any depth
	precedenceYielded = 0       // that of one which makes way for others
)

// startPrecedence is the precedence of a run that has not begun. To a root of a tree that has grown, and to a
// branch, a person speaks, who waits; of a new session nothing else is there to be ordered.
func (d *decision) startPrecedence(t *Task) int {
	if t.Depth == 0 && d.session().Total > 1 {
		return precedenceStarted
	}
	return max(0, t.Depth-1)
}

// priorityBackground is that of work that nobody waits for, and of what is
// started for its sake.
const priorityBackground = 1

func (d *decision) setTimer(t *Task, ref CallRef, due time.Time) {
	set(&d.view.changes.Timers, CallKey{t.ID, ref}, &Timer{Task: t.ID, Ref: ref, Due: due})
}

// timeoutDue is when a run that a worker has since a moment has been RUNNING for too long.
func (t *Task) timeoutDue(since time.Time) time.Time {
	due := since.Add(t.Timeout - t.Ran)
	if t.isShell() {
		due = due.Add(shellGrace)
	}
	return due
}

// endAttempt takes the run from its worker: whatever it still says is stale.
func (d *decision) endAttempt(t *Task) {
	if t.Timeout > 0 {
		t.Ran += d.env.Now.Sub(t.ClaimedAt)
		set(&d.view.changes.Timers, CallKey{t.ID, timeoutRef}, nil)
	}
	t.CurrentAttempt = CurrentAttempt{}
	set(&d.view.changes.Attempts, t.ID, nil)
}
