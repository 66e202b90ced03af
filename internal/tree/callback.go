package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Callback says that somebody wants to be called since a run has ended. The row is
// written with the run's result, and goes when the call was answered or is given
// up; what is told is made from the run's outcome, which never changes.
//
// Or somebody wants to be called since a call of the run asks: then it is part of the
// approval, and goes with its decision as well.
type Callback struct {
	Task     TaskID
	Run      int
	Approval ApprovalID // zero: the run has ended
	URL      string
	Tries    int       // how often a replica has taken it
	Due      time.Time // when it may be taken (again)
}

// CallbackKey says which callback is meant.
type CallbackKey struct {
	Task     TaskID
	Run      int
	Approval ApprovalID // zero: that of the run's end
}

// Key is that of the callback.
func (c *Callback) Key() CallbackKey { return CallbackKey{c.Task, c.Run, c.Approval} }

// Callback is the callback of the approval; nil if there is none, or none any more.
func (a *Approval) Callback() *Callback {
	if a == nil || a.State != ApprovalOpen || a.URL == "" {
		return nil
	}
	return &Callback{Task: a.Task, Run: a.Run, Approval: a.ID, URL: a.URL, Tries: a.Tries, Due: a.CallDue}
}

// TakeCallback takes a callback that is due for a replica that is going to call.
// For the lease nobody else takes it; a replica that is lost meanwhile leaves it to
// others. One that was taken too often is given up. Answer: [CallbackTaken], or
// [Done] if it was given up.
type TakeCallback struct {
	CallbackKey
	Lease    time.Duration
	MaxTries int
}

// CallbackTaken is a callback in the hands of a replica, with the approval that it is about.
type CallbackTaken struct {
	Callback Callback
	Asked    *Approval // nil: it is about the end of a run
}

// SettleCallback says what came of a call: it was answered, or it will be made
// again, or it is given up. Answer: [Done].
type SettleCallback struct {
	CallbackKey
	Try       int // the one that it is about
	Delivered bool
	Final     bool          // another try would not help
	Retry     time.Duration // how long to wait for the next try
	MaxTries  int
	Detail    string // what went wrong
}

func (CallbackTaken) isAnswer() {}

// requestCallback writes down that somebody wants to hear of the end of the task's run.
func (d *decision) requestCallback(t *Task) {
	if t.OnComplete == "" {
		return
	}
	d.putCallback(&Callback{Task: t.ID, Run: t.Run, URL: t.OnComplete, Due: d.env.Now})
}

func (d *decision) putCallback(c *Callback) {
	if a := d.view.approvals[c.Approval]; a != nil {
		a.URL, a.Tries, a.CallDue = c.URL, c.Tries, c.Due
		d.view.touchApproval(a)
		return
	}
	key := ChildRun{c.Task, c.Run}
	set(&d.view.callbacks, key, c)
	set(&d.view.changes.Callbacks, key, c)
}

// endCallback ends a callback with an event. The event is of no run: the run has
// had its last one.
func (d *decision) endCallback(t *Task, c *Callback, delivered bool, detail string) {
	if a := d.view.approvals[c.Approval]; a != nil {
		a.URL, a.Tries, a.CallDue = "", c.Tries, time.Time{}
		d.view.touchApproval(a)
	} else {
		key := ChildRun{c.Task, c.Run}
		set(&d.view.callbacks, key, nil)
		set(&d.view.changes.Callbacks, key, nil)
	}
	detail = excerpt.Tail(detail, maxDetail)
	d.emitOutsideRun(t, CallbackEnded{Run: c.Run, Approval: c.Approval, URL: c.URL, Delivered: delivered, Tries: c.Tries, Detail: detail})
}

// emitOutsideRun appends an event about a task that is no part of any run.
func (d *decision) emitOutsideRun(t *Task, kind EventKind) {
	d.emit(t, kind)
	events := d.view.changes.Events
	events[len(events)-1].Run = 0
}

func (n *needs) callback(key CallbackKey) {
	n.task(key.Task)
	if !key.Approval.IsZero() {
		n.approval(key.Approval)
		return
	}
	run := ChildRun{key.Task, key.Run}
	if _, held := n.view.callbacks[run]; !held {
		n.Callbacks = append(n.Callbacks, run)
	}
}

// callback gives a callback that was asked for; nil if there is none.
func (v *View) callback(key CallbackKey) *Callback {
	if key.Approval.IsZero() {
		return v.callbacks[ChildRun{key.Task, key.Run}]
	}
	c := v.approval(key.Approval).Callback()
	if c == nil || c.Key() != key {
		return nil
	}
	return c
}

func (c TakeCallback) needs(n *needs) { n.callback(c.CallbackKey) }

func (c TakeCallback) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	if err != nil {
		return nil, err
	}
	row := d.view.callback(c.CallbackKey)
	switch {
	case row == nil:
		return nil, ErrNoCallback
	case d.env.Now.Before(row.Due):
		return nil, ErrNotDue.With("%s to go", row.Due.Sub(d.env.Now))
	case row.Tries >= c.MaxTries:
		d.endCallback(t, row, false, "the replicas that called were lost before they had an answer")
		return Done{}, nil
	}
	taken := *row
	taken.Tries++
	taken.Due = d.env.Now.Add(c.Lease)
	d.putCallback(&taken)
	answer := CallbackTaken{Callback: taken}
	if a := d.view.approvals[c.Approval]; a != nil {
		asked := *a
		answer.Asked = &asked
	}
	return answer, nil
}

func (c SettleCallback) needs(n *needs) { n.callback(c.CallbackKey) }

func (c SettleCallback) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	if err != nil {
		return nil, err
	}
	row := d.view.callback(c.CallbackKey)
	switch {
	case row == nil:
		return nil, ErrNoCallback
	case row.Tries != c.Try:
		return nil, ErrStale.With("try %d, the callback is at %d", c.Try, row.Tries)
	case c.Delivered:
		d.endCallback(t, row, true, "")
	case c.Final || row.Tries >= c.MaxTries:
		d.endCallback(t, row, false, c.Detail)
	default:
		again := *row
		again.Due = d.env.Now.Add(c.Retry)
		d.putCallback(&again)
	}
	return Done{}, nil
}
