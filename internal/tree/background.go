package tree

// Background moves a run to the background, so that everything that waits for it continues. The
// caller's call is closed as launched, and the end of the run reaches the caller as news. The calls
// of others that have resumed the task at work are closed too, without news. A call that reads its
// output gets the output so far. A run that nobody waits for stays as it is. Answer: [DoneTo].
type Background struct{ Task TaskID }

func (c Background) needs(n *needs) {
	if t := n.task(c.Task); t != nil {
		n.settle(t)
	}
}

func (c Background) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	switch {
	case err != nil:
		return nil, err
	case !t.State.Active():
		return nil, ErrEnded.With("it is %s", t.State)
	case t.Depth == 0:
		return nil, ErrBadInput.With("the task is a root or a branch, so no parent waits for it")
	case !t.Background && d.session().Limits.NoBackground:
		return nil, ErrNoBackground
	}
	if !t.Background {
		d.moveToBackground(t)
	}
	run := ChildRun{t.ID, t.Run}
	for _, row := range d.view.watchers[run] {
		if c := d.view.call(row.Task, row.Ref); c != nil && c.State == CallWaiting && c.Child == run {
			d.releaseCall(d.view.task(row.Task), c)
		}
	}
	return DoneTo{t.ID}, nil
}

// releaseCall closes a call that waits for a run, without ending the run. If the call asked for the
// run, the run moves to the background.
func (d *decision) releaseCall(t *Task, c *Call) {
	target := d.view.task(c.Child.Task)
	if target.isAwaitedBy(c) {
		d.moveToBackground(target)
		return
	}
	d.stopWatching(c)
	if c.Reads {
		d.setCallOutput(c, target)
	} else {
		c.Text = launchedText(target, t)
	}
	d.closeCall(t, c)
}

// moveToBackground lets the caller of a run continue.
func (d *decision) moveToBackground(t *Task) {
	d.recordCallPhase(t)
	t.Background, t.Priority = true, priorityBackground
	d.view.touchTask(t)
	d.emit(t, Backgrounded{})
	if t.Caller.IsZero() {
		return
	}
	caller := d.view.task(t.Caller)
	caller.LiveBackground++
	d.view.touchTask(caller)
	call := d.view.call(t.Caller, t.Call)
	if call == nil || call.State != CallWaiting || call.Child != (ChildRun{t.ID, t.Run}) {
		return
	}
	call.Text = launchedText(t, caller)
	d.closeCall(caller, call)
}
