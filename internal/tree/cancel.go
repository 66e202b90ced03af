package tree

import (
	"bytes"
	"cmp"
	"slices"
)

// Cancel ends the current run of a task and those of all tasks below it. What
// has ended stays as it is, and so does the session: the root's next turn may
// follow. Answer: [Cancelled].
type Cancel struct {
	Task   TaskID // zero: the root
	Detail string // why, in the client's words
}

// Cancelled says how many runs a cancel has ended.
type Cancelled struct {
	Task TaskID
	Runs int
}

func (Cancelled) isAnswer() {}

func (c Cancel) target(v *View) TaskID {
	if c.Task.IsZero() && v.session != nil {
		return v.session.Root
	}
	return c.Task
}

func (c Cancel) needs(n *needs) {
	id := c.target(n.view)
	n.below(id)
	for _, t := range append(n.view.descendants(id), n.task(id)) {
		if t != nil && t.State.Active() {
			n.finish(t)
		}
	}
}

func (c Cancel) decide(d *decision) (Answer, error) {
	t, err := d.task(c.target(d.view))
	if err != nil {
		return nil, err
	}
	detail, _ := bounded(c.Detail, maxDetail)
	return Cancelled{Task: t.ID, Runs: d.cancel(t, ReasonCancelledByUser, detail)}, nil
}

// cancel ends a task's run for a reason and all runs below it because of that.
// It goes from the top down, so that nobody is woken by a child whose end is
// only a part of its own.
func (d *decision) cancel(top *Task, reason Reason, detail string) int {
	ending := []*Task{}
	for _, t := range append(d.view.descendants(top.ID), top) {
		d.falling = append(d.falling, t.ID)
		if t.State.Active() {
			ending = append(ending, t)
		}
	}
	slices.SortFunc(ending, func(a, b *Task) int {
		return cmp.Or(a.Depth-b.Depth, bytes.Compare(a.ID[:], b.ID[:]))
	})
	for _, t := range ending {
		if t.State == StateRunning {
			d.view.changes.Revoked = append(d.view.changes.Revoked, Revoked{Task: t.ID, Epoch: t.Epoch})
		}
		if t == top {
			d.finish(t, StateCancelled, reason, detail)
			continue
		}
		d.finish(t, StateCancelled, ReasonCancelledByParent, "")
	}
	d.falling = nil
	if top.Depth == 0 && d.heardOfUser(top) {
		d.nextTurn(top)
	}
	return len(ending)
}

// heardOfUser reports whether a user's message waits for the task. News of
// children alone does not start a turn again that somebody has cancelled.
func (d *decision) heardOfUser(t *Task) bool {
	return t.Inbox > 0 && slices.ContainsFunc(d.view.inbox[t.ID], func(e *InboxEntry) bool {
		return e.News == ChildRun{}
	})
}

// below asks for all tasks below one, ended or not.
func (n *needs) below(id TaskID) {
	if !n.view.below[id] {
		n.Below = append(n.Below, id)
	}
}

// descendants gives the tasks below one that the view holds, in no order.
func (v *View) descendants(id TaskID) []*Task {
	var found []*Task
	for _, t := range v.tasks {
		for up := t; up != nil && !up.Parent.IsZero(); up = v.tasks[up.Parent] {
			if up.Parent == id {
				found = append(found, t)
				break
			}
		}
	}
	return found
}
