package tree

// ClearInbox removes what waits for a task: the messages of users, and with News also news of
// children. Answer: [Cleared].
type ClearInbox struct {
	Task TaskID // zero: the current branch
	News bool   // also remove news of children
}

// Cleared says what was removed, and how many entries still wait.
type Cleared struct {
	Task     TaskID
	Messages int
	News     []ChildRun // ends that will not be reported
	Left     int
}

func (Cleared) isAnswer() {}

func (c ClearInbox) needs(n *needs) { n.boundary(n.task(n.view.session.OrCurrent(c.Task))) }

func (c ClearInbox) decide(d *decision) (Answer, error) {
	t, err := d.task(d.session().OrCurrent(c.Task))
	if err != nil {
		return nil, err
	}
	cleared := Cleared{Task: t.ID}
	var left []*InboxEntry
	woken := t.answered() && t.State != StateWaiting // it needs one entry to continue with
	for i, e := range d.view.inbox[t.ID] {
		isNews := e.News != ChildRun{}
		switch {
		case isNews && !c.News, woken && i == 0:
			left = append(left, e)
			continue
		case isNews:
			cleared.News = append(cleared.News, e.News)
		default:
			cleared.Messages++
		}
		set(&d.view.changes.Inbox, e.ID, nil)
	}
	cleared.Left = len(left)
	if cleared.Messages+len(cleared.News) == 0 {
		return cleared, nil
	}
	set(&d.view.inbox, t.ID, left)
	t.Inbox = len(left)
	d.view.touchTask(t)
	d.emitOutsideRun(t, InboxCleared{Messages: cleared.Messages, News: cleared.News, Left: cleared.Left})
	if t.Inbox == 0 {
		d.emitOutsideRun(t, InboxEmpty{})
	}
	return cleared, nil
}

// interrupt brings a run to its boundary as far as that depends on its children and commands.
// Children that it waits for move to the background. Calls that wait for output are closed with the
// output so far. Running commands move to the background. A model call and other tools are not
// aborted; the boundary is reached when the last of them is done. Where background work is switched
// off, nothing moves to the background, and no commands do for which the caps leave no room. It
// returns the number of children that were moved.
func (d *decision) interrupt(t *Task) int {
	moved := 0
	if !t.State.Active() || t.OpenCalls == 0 {
		return 0
	}
	for _, c := range d.view.openCalls(t) {
		if c.State != CallWaiting || c.Child.Task.IsZero() {
			continue
		}
		moves := d.view.task(c.Child.Task).isAwaitedBy(c)
		if moves && d.session().Limits.NoBackground {
			continue
		}
		d.releaseCall(t, c)
		if moves {
			moved++
		}
	}
	if !d.session().Limits.NoBackground && d.mayReleaseCommands(t) == nil {
		d.releaseCommands(t)
	}
	return moved
}

func (n *needs) interrupt(t *Task) {
	if t == nil {
		return
	}
	n.boundary(t)
	n.openCalls(t)
	for _, c := range n.view.calls[t.ID] {
		if c != nil && c.State == CallWaiting && !c.Child.Task.IsZero() {
			n.task(c.Child.Task)
		}
	}
}

// isAwaitedBy reports whether a call waits for the task as the child that it asked for.
func (t *Task) isAwaitedBy(c *Call) bool {
	return t.Caller == c.Task && t.Call == c.Ref && !t.Background && c.Child == ChildRun{t.ID, t.Run}
}
