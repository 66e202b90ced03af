package tree

import "time"

// Join says what the end of one child means for the others that one message asked
// for. Its numbers are stored.
type Join uint8

// The policies.
const (
	JoinAll Join = iota // nothing: each call waits for its own child
	JoinAny             // the first that completes wins; those with the same policy are cancelled
)

// maxJoin bounds how long a call may wait for its child.
const maxJoin = 7 * 24 * time.Hour

// wonBy closes the race that a call was in, if there is one and its child has
// completed: the children of the other calls in it are cancelled.
func (d *decision) wonBy(t *Task, won *Call) {
	if won.Join != JoinAny || won.IsError || t.OpenCalls == 0 {
		return
	}
	for _, c := range d.view.openCalls(t) {
		if c.Join != JoinAny || c.State != CallWaiting || c.Ref.Message != won.Ref.Message {
			continue
		}
		child := d.view.task(c.Child.Task)
		if !child.called(c) {
			d.leave(t, c, child)
			continue
		}
		d.abort(child, "another child of its group was first")
	}
}

// abort ends a child's run, and those below it, for a reason that its parent has.
func (d *decision) abort(child *Task, detail string) {
	below := d.view.descendants(child.ID)
	d.falling = append(d.falling, child.ID)
	d.revoke(child)
	d.finish(child, StateCancelled, ReasonCancelledByParent, detail)
	d.bringDown(below)
	d.falling = nil
}

// complete asks for what is read when a run ends with an answer: the children that
// have lost against it end with it.
func (n *needs) complete(t *Task) {
	n.finish(t)
	if t == nil {
		return
	}
	if !t.Background && !t.Caller.IsZero() {
		n.race(t.Caller, t.Call)
	}
	for _, row := range n.view.watchers[ChildRun{t.ID, t.Run}] {
		n.race(row.Task, row.Ref)
	}
}

// race asks for the other calls of a call's race, and for all that ends with them.
func (n *needs) race(id TaskID, ref CallRef) {
	won := n.view.calls[id][ref]
	t := n.view.tasks[id]
	if won == nil || t == nil || won.Join != JoinAny {
		return
	}
	n.openCalls(t)
	for other, c := range n.view.calls[id] {
		if other == ref || c == nil || c.State != CallWaiting || c.Join != JoinAny {
			continue
		}
		n.fall(n.task(c.Child.Task))
	}
}

// joinOver acts when a call has waited for its child as long as it may: the child
// goes on in the background, or ends where there is no such thing.
func (d *decision) joinOver(child *Task) {
	if d.session().Limits.NoBackground {
		d.abort(child, "the join's deadline passed, and background work is switched off")
		return
	}
	d.background(child)
}
