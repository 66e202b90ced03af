package tree

import "time"

// Join says what the ends of the other children of one message mean for a child. If it is not
// [JoinAll], the child is in a race with those other children that do not have JoinAll either. Its
// value is how many of them have to complete before the child is cancelled. In a waiting call it is
// how many still have to complete.
type Join uint8

// The policies. Values between JoinAny and JoinMax are quorums.
const (
	JoinAll Join = 0 // no meaning: each call waits for its own child
	JoinAny Join = 1 // the first child that completes wins
	JoinMax Join = 250
)

// maxJoin limits how long a call may wait for its child.
const maxJoin = 7 * 24 * time.Hour

// settleRace is called when the child of a call has completed. It cancels the children of the other
// calls in its race for which enough have completed.
func (d *decision) settleRace(t *Task, won *Call) {
	if won.Join == JoinAll || won.IsError || t.OpenCalls == 0 {
		return
	}
	for _, c := range d.view.calls[t.ID] {
		if c != nil && c.Child == won.Child && c.Ref.Message == won.Ref.Message && c.Ref != won.Ref && c.ByOutcome && c.Join != JoinAll {
			return // another call of the race has waited for the same child, and has counted it
		}
	}
	for _, c := range d.view.openCalls(t) {
		if c.Join == JoinAll || c.State != CallWaiting || c.Ref.Message != won.Ref.Message || c.Child == won.Child {
			continue
		}
		if c.Join > 1 {
			c.Join--
			d.view.touchCall(c)
			continue
		}
		if child := d.view.task(c.Child.Task); child.isAwaitedBy(c) {
			d.cancel(child, ReasonCancelledByParent, "enough others of its group were first")
			continue
		}
		d.releaseCall(t, c)
	}
}

// settleRace asks for everything that ends with the calls whose races this call decides.
func (n *needs) settleRace(id TaskID, ref CallRef) {
	won := n.view.calls[id][ref]
	t := n.view.tasks[id]
	if won == nil || t == nil || won.Join == JoinAll {
		return
	}
	n.openCalls(t)
	for other, c := range n.view.calls[id] {
		if other.Message != ref.Message || other == ref || c == nil || c.State != CallWaiting || c.Join != JoinAny {
			continue
		}
		n.cancel(c.Child.Task)
	}
}

// complete asks for what is read when a run ends with an answer, including the children that have
// lost a race against it.
func (n *needs) complete(t *Task) {
	n.finish(t)
	if t == nil {
		return
	}
	if !t.Background && !t.Caller.IsZero() {
		n.settleRace(t.Caller, t.Call)
	}
	for _, row := range n.view.watchers[ChildRun{t.ID, t.Run}] {
		n.settleRace(row.Task, row.Ref)
	}
}

// handleJoinTimeout is called when a call has waited as long as it may. Its child moves to the
// background, or is cancelled where background work is switched off.
func (d *decision) handleJoinTimeout(t *Task, c *Call) {
	if child := d.view.task(c.Child.Task); child.isAwaitedBy(c) && d.session().Limits.NoBackground {
		d.cancel(child, ReasonCancelledByParent, "the join's deadline passed, and background work is switched off")
		return
	}
	d.releaseCall(t, c)
}
