package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Callback is an HTTP call that has to be made because a run has ended. Its row is written with the
// run's result, and is deleted when the call was answered or is given up. Its content is made from
// the run's outcome, which never changes.
//
// A callback of an approval has to be made because a call of the run asks. It is part of the
// approval, and also ends with its decision.
type Callback struct {
	Task     TaskID
	Run      int
	Approval ApprovalID // zero: the run has ended
	URL      string
	Tries    int       // how often a replica has taken it
	Due      time.Time // when it may be taken next
}

// CallbackKey names a callback.
type CallbackKey struct {
	Task     TaskID
	Run      int
	Approval ApprovalID // zero: the callback of the run's end
}

// Key is the key of the callback.
func (c *Callback) Key() CallbackKey { return CallbackKey{c.Task, c.Run, c.Approval} }

// Callback is the callback of the approval; nil if it never had one, or the callback has ended.
func (a *Approval) Callback() *Callback {
	if a == nil || a.State != ApprovalOpen || a.URL == "" {
		return nil
	}
	return &Callback{Task: a.Task, Run: a.Run, Approval: a.ID, URL: a.URL, Tries: a.Tries, Due: a.CallDue}
}

// TakeCallback leases a callback that is due to a replica that is about to make the call. No other
// replica takes it during the lease; after that any replica may. A callback that was taken too
// often is given up. Answer: [CallbackTaken], or [Done] if it was given up.
type TakeCallback struct {
	CallbackKey
	Lease    time.Duration
	MaxTries int
}

// CallbackTaken is a leased callback, with the approval that it is about.
type CallbackTaken struct {
	Callback Callback
	Asked    *Approval // nil: it is about the end of a run
}

// SettleCallback says how a call went: it was answered, it will be retried, or it is given up.
// Answer: [Done].
type SettleCallback struct {
	CallbackKey
	Try       int // the number of the try
	Delivered bool
	Final     bool          // a retry would not help
	Retry     time.Duration // delay of the next try
	MaxTries  int
	Detail    string // the error
}

func (CallbackTaken) isAnswer() {}

// requestCallback adds the callback for the end of the task's run, if there is a URL.
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

// endCallback ends a callback with an event. The event belongs to no run, because the run has had
// its last event.
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

// emitOutsideRun emits an event about a task that belongs to no run.
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
