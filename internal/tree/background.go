package tree

// Background lets a caller go on that waits for a task's run: its call is closed
// as launched, and the end of the run reaches it as news. A run that nobody waits
// for stays as it is. Answer: [Done].
type Background struct{ Task TaskID }

func (c Background) needs(n *needs) {
	t := n.task(c.Task)
	if t == nil || t.Background || t.Caller.IsZero() {
		return
	}
	n.boundary(n.task(t.Caller))
	n.call(t.Caller, t.Call)
}

func (c Background) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	switch {
	case err != nil:
		return nil, err
	case !t.State.Active():
		return nil, ErrEnded.With("it is %s", t.State)
	case t.Depth == 0:
		return nil, ErrBadInput.With("the root is nobody's child")
	case t.Background:
		return Done{}, nil
	case d.session().Limits.NoBackground:
		return nil, ErrNoBackground
	}
	d.background(t)
	return Done{}, nil
}

// background lets whoever waits for a run go on.
func (d *decision) background(t *Task) {
	d.called(t)
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
	call.Text = launchedText(t, true)
	d.closeCall(caller, call)
}
