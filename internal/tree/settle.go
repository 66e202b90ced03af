package tree

import (
	"cmp"
	"slices"
)

// settle notifies everything that waits for a run that has ended: the caller's call or inbox, and
// other calls that wait for its output. A caller whose call waited for a background run gets the
// end as that call's result, and no news of it.
func (d *decision) settle(t *Task) {
	run, told := ChildRun{t.ID, t.Run}, false
	if !t.Background && !t.Caller.IsZero() {
		d.resolveCall(t, t.Caller, t.Call)
	}
	if t.Watchers > 0 {
		t.Watchers = 0
		for _, row := range d.view.watchers[run] {
			set(&d.view.changes.Waits, row, false)
			if d.resolveCall(t, row.Task, row.Ref) && row.Task == t.Caller {
				told = true
			}
		}
		set(&d.view.watchers, run, nil)
	}
	if t.Background && !t.Caller.IsZero() {
		caller := d.view.task(t.Caller)
		caller.LiveBackground--
		d.view.touchTask(caller)
		if !told && !d.muted[caller.ID] {
			d.deliverNews(caller, t, run)
		}
	}
}

// resolveCall closes a call with the outcome of the run that has ended, and reports whether it did.
// It does nothing if the call is closed already or waits for something else.
func (d *decision) resolveCall(ended *Task, caller TaskID, ref CallRef) bool {
	c := d.view.call(caller, ref)
	run := ChildRun{ended.ID, ended.Run}
	if c == nil || c.State != CallWaiting || c.Child != run {
		return false
	}
	key := CallKey{caller, ref}
	if _, changed := d.view.changes.Calls[key]; !changed {
		set(&d.view.changes.Settled, key, true)
	}
	c.ByOutcome, c.IsError = true, ended.State != StateCompleted
	t := d.view.task(caller)
	d.closeCall(t, c)
	d.settleRace(t, c)
	return true
}

// closeCall closes a call whose result the caller has set. With the last open call the task reaches
// its boundary.
func (d *decision) closeCall(t *Task, c *Call) { d.closeCallWith(t, c, Denial{}) }

// closeCallWith is closeCall for a call that may have been denied.
func (d *decision) closeCallWith(t *Task, c *Call, denial Denial) {
	if c.State == CallWaiting {
		d.dropCallTimer(t.ID, c.Ref)
	}
	if c.ByOutcome || c.Reads { // the result comes from a run, which may act for an external source
		t.Source = cmp.Or(t.Source, d.view.task(c.Child.Task).Source)
	}
	c.State = CallClosed
	t.OpenCalls--
	if t.State == StateWaiting && t.Wait.Kind == WaitCalls {
		t.Wait.Met++
		if c.IsError {
			t.Wait.Failed++
		}
	}
	d.view.touchCall(c)
	d.view.touchTask(t)
	event := CallResolved{Ref: c.Ref, IsError: c.IsError, Denial: denial}
	if c.ByOutcome {
		event.Child = c.Child
	}
	d.emit(t, event)
	if t.OpenCalls == 0 && t.State.Active() {
		d.boundary(t)
	}
}

// boundary is reached when the last call is closed: the results become a message, the inbox is
// taken in, and a parked run wakes.
func (d *decision) boundary(t *Task) {
	d.append(t, &Message{Role: RoleTool})
	t.OpenMessage, t.Release = 0, 0
	d.takeInboxForModel(t)
	if t.State == StateWaiting {
		d.wake(t)
	}
}

func (n *needs) boundary(t *Task) {
	if t == nil || t.Inbox == 0 {
		return
	}
	if _, held := n.view.inbox[t.ID]; !held && !slices.Contains(n.Inbox, t.ID) {
		n.Inbox = append(n.Inbox, t.ID)
	}
}

// dropOpenCalls closes the calls of a run that ends, so that its transcript can be continued later.
func (d *decision) dropOpenCalls(t *Task) {
	if t.OpenCalls == 0 {
		return
	}
	for _, c := range d.view.openCalls(t) {
		switch c.State {
		case CallWaiting:
			d.stopWatching(c)
		case CallAsking:
			d.withdrawApproval(t, c)
		}
		c.Text, c.IsError, c.State = "not finished: the run ended before the result came", true, CallClosed
		d.dropCallTimer(t.ID, c.Ref)
		d.view.touchCall(c)
		d.emit(t, CallResolved{Ref: c.Ref, IsError: true})
	}
	t.OpenCalls = 0
	d.append(t, &Message{Role: RoleTool})
	t.OpenMessage, t.Release = 0, 0
}

// stopWatching deletes the wait of a call that no longer waits. The target keeps its count, which
// only hints that there may be waits.
func (d *decision) stopWatching(c *Call) {
	set(&d.view.changes.Waits, WaitRow{Target: c.Child, Task: c.Task, Ref: c.Ref}, false)
}

// takeInboxForModel takes the inbox in if the run may still call its model. Otherwise the inbox
// stays for the next run.
func (d *decision) takeInboxForModel(t *Task) {
	if d.mayCallModel(t) {
		d.takeInbox(t)
	}
}

// mayCallModel reports whether the run may call its model again.
func (d *decision) mayCallModel(t *Task) bool {
	return t.Iterations < t.MaxIterations && d.session().spent() == ""
}

// takeInbox moves the task's inbox to its transcript: first the messages of users, then news of
// children, each in order of arrival.
func (d *decision) takeInbox(t *Task) {
	if t.Inbox == 0 {
		return
	}
	entries := d.view.inbox[t.ID]
	taken := InboxTaken{}
	for _, e := range entries {
		if (e.News == ChildRun{}) {
			taken.Messages++
		} else {
			taken.News++
		}
	}
	d.emit(t, taken)
	for _, news := range []bool{false, true} {
		for _, e := range entries {
			if (e.News != ChildRun{}) != news {
				continue
			}
			t.Source = cmp.Or(t.Source, e.Source)
			d.append(t, &Message{ID: e.ID, Role: RoleUser, Blocks: e.Blocks, News: e.News})
			set(&d.view.changes.Inbox, e.ID, nil)
		}
	}
	set(&d.view.inbox, t.ID, nil)
	t.Inbox = 0
	d.view.touchTask(t)
	d.emitOutsideRun(t, InboxEmpty{})
}

// enqueue adds an entry to a task's inbox, which the command has asked for.
func (d *decision) enqueue(t *Task, e *InboxEntry) {
	e.Task, e.ID, e.QueuedAt = t.ID, MessageID(d.env.NewID()), d.env.Now
	set(&d.view.inbox, t.ID, append(d.view.inbox[t.ID], e))
	t.Inbox++
	set(&d.view.changes.Inbox, e.ID, e)
	d.view.touchTask(t)
	queued := Queued{News: e.News, Message: e.ID, Waiting: t.Inbox}
	if t.State.Active() {
		d.emit(t, queued)
	} else {
		d.emitOutsideRun(t, queued)
	}
}

// deliverNews gives the caller of a background run the news of its end.
func (d *decision) deliverNews(caller, t *Task, run ChildRun) {
	if caller.Depth == 0 && !caller.State.Active() && d.newsMayStartRun(caller) {
		d.accept(caller, requester{source: t.Source})
		d.takeInbox(caller)
		d.append(caller, &Message{Role: RoleUser, News: run})
		return
	}
	// A sub-agent that has ended gets the news when it is resumed. A root whose next run news may not
	// start gets it with the next user message, or when the budget is raised.
	d.enqueue(caller, &InboxEntry{News: run, Source: t.Source})
	if caller.State != StateWaiting || caller.Wait.Kind != WaitBackground {
		return
	}
	caller.Wait.Met++
	if t.State != StateCompleted {
		caller.Wait.Failed++
	}
	if caller.LiveBackground == 0 {
		d.wake(caller)
	}
}
