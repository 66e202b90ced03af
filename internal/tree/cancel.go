package tree

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Cancel ends the current run of a task and those of all tasks below it. Runs that have ended stay
// as they are, and so does the session: the root may have another turn. With Run set, it does
// nothing once a later run has started, so that a repeat does not cancel the next turn. Answer:
// [Cancelled].
type Cancel struct {
	Task   TaskID // zero: the root
	Run    int    // 0: the current one
	Detail string // the client's reason
}

// Cancelled says how many runs were ended.
type Cancelled struct {
	Task TaskID
	Runs int
}

func (Cancelled) isAnswer() {}

func (c Cancel) needs(n *needs) { n.cancel(n.view.session.OrRoot(c.Task)) }

func (c Cancel) decide(d *decision) (Answer, error) {
	t, err := d.task(d.session().OrRoot(c.Task))
	if err != nil {
		return nil, err
	}
	switch {
	case c.Run < 0 || c.Run > t.Run:
		return nil, ErrBadInput.With("run is %d, but the last run of the task is %d", c.Run, t.Run)
	case c.Run > 0 && c.Run < t.Run:
		return Cancelled{Task: t.ID}, nil
	}
	detail := excerpt.Short(c.Detail, maxDetail)
	return Cancelled{Task: t.ID, Runs: d.cancel(t, ReasonCancelledByUser, detail)}, nil
}

// cancel ends a task's run for the given reason, and all runs below it as cancelled by their
// parent. The detail is that of the task's own run; if this has ended already, it is that of the
// runs below, which would otherwise not say it.
func (d *decision) cancel(top *Task, reason Reason, detail string) (runs int) {
	only, below := []*Task{top}, ""
	if !top.State.Active() {
		below = detail
	}
	d.withMuted(only, func() {
		runs = d.cancelRuns(only, reason, detail)
		runs += d.cancelRuns(d.view.descendants(top.ID), ReasonCancelledByParent, below)
	})
	if top.Depth == 0 && d.hasUserMessage(top) {
		d.nextTurn(top)
	}
	return runs
}

func (n *needs) cancel(id TaskID) {
	if id.IsZero() {
		return // Below with the zero id would be all tasks
	}
	n.below(id)
	n.cancelRuns(append(n.view.descendants(id), n.task(id)))
}

// fail ends a run from outside. The children that it waited for are cancelled; background runs
// continue.
func (d *decision) fail(t *Task, reason Reason, detail string) {
	awaited := d.view.awaited(t)
	d.revoke(t)
	d.finish(t, StateFailed, reason, detail)
	d.cancelRuns(awaited, ReasonCancelledByParent, "")
}

func (n *needs) fail(t *Task) {
	n.finish(t)
	if t != nil && t.OpenCalls > 0 {
		n.below(t.ID)
		n.cancelRuns(n.view.awaited(t))
	}
}

// cancelRuns ends the runs of several tasks together, from the top down and without news to any of
// them, so that no task is woken by the end of a child when its own run is about to end.
func (d *decision) cancelRuns(tasks []*Task, reason Reason, detail string) int {
	var ending []*Task
	for _, t := range tasks {
		if t.State.Active() {
			ending = append(ending, t)
		}
	}
	slices.SortFunc(ending, func(a, b *Task) int {
		return cmp.Or(a.Depth-b.Depth, bytes.Compare(a.ID[:], b.ID[:]))
	})
	d.withMuted(tasks, func() {
		for _, t := range ending {
			d.revoke(t)
			d.finish(t, StateCancelled, reason, detail)
		}
	})
	return len(ending)
}

func (n *needs) cancelRuns(tasks []*Task) {
	for _, t := range tasks {
		if t != nil && t.State.Active() {
			n.finish(t)
		}
	}
}

// withMuted calls do while the tasks get no news of the ends of their background children.
func (d *decision) withMuted(by []*Task, do func()) {
	before := d.muted
	d.muted = maps.Clone(before)
	for _, t := range by {
		set(&d.muted, t.ID, true)
	}
	do()
	d.muted = before
}

// revoke has the worker of a running run told that the run has ended.
func (d *decision) revoke(t *Task) {
	if t.State == StateRunning {
		d.view.changes.Revoked = append(d.view.changes.Revoked, Revoked{Session: t.Session, Task: t.ID, Epoch: t.Epoch})
	}
}

// hasUserMessage reports whether a user's message waits for the task. News of children alone does
// not restart a turn that was cancelled.
func (d *decision) hasUserMessage(t *Task) bool {
	return t.Inbox > 0 && slices.ContainsFunc(d.view.inbox[t.ID], func(e *InboxEntry) bool {
		return e.News == ChildRun{}
	})
}

// below asks for all tasks below a task, ended or not.
func (n *needs) below(id TaskID) {
	if !n.view.below[id] {
		n.Below = append(n.Below, id)
	}
}

// descendants gives the tasks below a task that the view holds, in no order.
func (v *View) descendants(id TaskID) []*Task {
	if v.children == nil {
		v.children = map[TaskID][]TaskID{}
		for id, t := range v.tasks {
			if t != nil {
				v.children[t.Parent] = append(v.children[t.Parent], id)
			}
		}
	}
	var found []*Task
	for parents := []TaskID{id}; len(parents) > 0; parents = parents[1:] {
		for _, child := range v.children[parents[0]] {
			v.mayChange(v.tasks[child])
			found = append(found, v.tasks[child])
			parents = append(parents, child)
		}
	}
	return found
}

// awaited gives the children whose runs a run waits for, and all tasks below them.
func (v *View) awaited(t *Task) []*Task {
	var found []*Task
	for _, child := range v.descendants(t.ID) {
		if child.Caller == t.ID && !child.Background && child.State.Active() {
			found = append(append(found, child), v.descendants(child.ID)...)
		}
	}
	slices.SortFunc(found, func(a, b *Task) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return slices.Compact(found)
}
