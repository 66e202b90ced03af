package tree

import "time"

// Every move of a run's state is in this file, each guarded: a move from a state
// that does not allow it is a defect and panics, since decide has to check first.

// asked says who wants a run: nobody but a client, or a call of a task.
type asked struct {
	by         TaskID
	call       CallRef
	background bool
}

// accept starts the next run of a task that has none: it waits for a worker.
func (d *decision) accept(t *Task, a asked) {
	if t.State.Active() {
		panic("tree: accept of a task whose run has not ended")
	}
	t.Run++
	t.Reason, t.Detail = ReasonUnspecified, ""
	t.Caller, t.Call, t.Background = a.by, a.call, a.background
	t.Iterations, t.RunUsage, t.RunTools, t.Answer, t.Strikes = 0, Usage{}, 0, 0, 0
	t.AcceptedAt, t.StartedAt, t.EndedAt = d.env.Now, time.Time{}, time.Time{}
	t.Activity = ""
	if t.Background && !t.Caller.IsZero() {
		caller := d.view.task(t.Caller)
		caller.LiveBackground++
		if caller.State == StateWaiting && caller.Wait.Kind == WaitBackground {
			caller.Wait.Total++
		}
		d.view.touchTask(caller)
	}
	d.move(t, StatePending)
	started := Started{
		Parent: t.Parent, Kind: t.Kind, Branch: t.Branch, Depth: t.Depth, Agent: t.Agent,
		Description: t.Description, Background: t.Background,
	}
	if t.Caller == t.Parent {
		started.Call = t.Call
	}
	d.emit(t, started)
	d.offer(t)
}

// claim gives a pending run to a worker.
func (d *decision) claim(t *Task, nonce uint64, worker string) {
	if t.State != StatePending {
		panic("tree: claim of a run that is not pending")
	}
	t.Nonce, t.LastSeq, t.Replica, t.Worker = nonce, 0, d.env.Replica, worker
	if t.StartedAt.IsZero() {
		t.StartedAt = d.env.Now
	}
	d.move(t, StateRunning)
	d.view.changes.Ready[t.ID] = nil
	d.view.changes.Attempts[t.ID] = &Attempt{
		Task: t.ID, Epoch: t.Epoch, Replica: t.Replica, Worker: worker, At: d.env.Now,
	}
	d.emit(t, Dispatched{Epoch: t.Epoch, Worker: worker})
}

// park takes a running run from its worker until what it waits for has come.
func (d *decision) park(t *Task, on ParkedOn) {
	if t.State != StateRunning {
		panic("tree: park of a run that is not running")
	}
	t.Wait = on
	d.endAttempt(t)
	d.move(t, StateWaiting)
	d.emit(t, Parked{On: on})
}

// wake makes a parked run wait for a worker again.
func (d *decision) wake(t *Task) {
	if t.State != StateWaiting {
		panic("tree: wake of a run that is not parked")
	}
	t.Wait = ParkedOn{}
	d.move(t, StatePending)
	d.offer(t)
	d.emit(t, Readied{Cause: ReadySatisfied, Epoch: t.Epoch})
}

// redeliver makes a run whose worker was lost wait for another.
func (d *decision) redeliver(t *Task) {
	if t.State != StateRunning {
		panic("tree: redelivery of a run that is not running")
	}
	d.endAttempt(t)
	d.move(t, StatePending)
	d.offer(t)
	d.emit(t, Readied{Cause: ReadyRedelivered, Epoch: t.Epoch})
}

// finish ends a run and tells everyone who waits for it. A root that has news
// starts its next run in the same step, so nothing slips between two turns.
func (d *decision) finish(t *Task, state State, reason Reason, detail string) {
	if !t.State.Active() {
		panic("tree: finish of a run that is not active")
	}
	d.dropOpenCalls(t)
	if t.State == StateRunning {
		d.endAttempt(t)
	}
	d.view.changes.Ready[t.ID] = nil
	t.Wait, t.Reason, t.Detail, t.EndedAt = ParkedOn{}, reason, detail, d.env.Now
	d.move(t, state)
	d.view.changes.Runs = append(d.view.changes.Runs, &Run{
		Task: t.ID, Run: t.Run, State: state, Reason: reason, Detail: detail, Answer: t.Answer,
		Usage: t.RunUsage, ToolUses: t.RunTools, Iterations: t.Iterations,
		AcceptedAt: t.AcceptedAt, StartedAt: t.StartedAt, EndedAt: t.EndedAt,
	})
	result := Result{State: state, Reason: reason, Detail: detail, Usage: t.RunUsage, ToolUses: t.RunTools}
	if t.Answer > 0 {
		result.Message = t.Head
	}
	d.emit(t, result)
	d.settle(t)
	if t.Depth == 0 && t.Inbox > 0 && state != StateCancelled {
		d.nextTurn(t)
	}
}

// nextTurn starts the root's next run with what is in its inbox.
func (d *decision) nextTurn(t *Task) {
	d.accept(t, asked{})
	d.takeInbox(t)
}

// move changes the state and the session's counts with it.
func (d *decision) move(t *Task, to State) {
	s := d.session()
	s.count(t.State, -1)
	s.count(to, 1)
	t.State = to
	d.view.changes.Session = s
	d.view.touchTask(t)
}

// offer raises the epoch and makes the pending run ready for dispatch under it.
func (d *decision) offer(t *Task) {
	t.Epoch++
	priority := 0
	if t.Background {
		priority = 1
	}
	d.view.changes.Ready[t.ID] = &Ready{Task: t.ID, Epoch: t.Epoch, Priority: priority, At: d.env.Now}
}

// endAttempt takes the run from its worker: whatever it still says is stale.
func (d *decision) endAttempt(t *Task) {
	t.Nonce, t.LastSeq, t.Replica, t.Worker = 0, 0, "", ""
	d.view.changes.Attempts[t.ID] = nil
}
