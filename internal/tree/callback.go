package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Callback says that somebody wants to be called since a run has ended. The row is
// written with the run's result, and goes when the call was answered or is given
// up; what is told is made from the run's outcome, which never changes.
type Callback struct {
	Task  TaskID
	Run   int
	URL   string
	Tries int       // how often a replica has taken it
	Due   time.Time // when it may be taken (again)
}

// TakeCallback takes a callback that is due for a replica that is going to call.
// For the lease nobody else takes it; a replica that is lost meanwhile leaves it to
// others. One that was taken too often is given up. Answer: [CallbackTaken], or
// [Done] if it was given up.
type TakeCallback struct {
	Task     TaskID
	Run      int
	Lease    time.Duration
	MaxTries int
}

// CallbackTaken is a callback in the hands of a replica.
type CallbackTaken struct{ Callback Callback }

// SettleCallback says what came of a call: it was answered, or it will be made
// again, or it is given up. Answer: [Done].
type SettleCallback struct {
	Task      TaskID
	Run       int
	Try       int // the one that it is about
	Delivered bool
	Final     bool          // another try would not help
	Retry     time.Duration // how long to wait for the next try
	MaxTries  int
	Detail    string // what went wrong
}

func (CallbackTaken) isAnswer() {}

// callBack writes down that somebody wants to hear of the end of the task's run.
func (d *decision) callBack(t *Task) {
	if t.OnComplete == "" {
		return
	}
	d.putCallback(&Callback{Task: t.ID, Run: t.Run, URL: t.OnComplete, Due: d.env.Now})
}

func (d *decision) putCallback(c *Callback) {
	key := ChildRun{c.Task, c.Run}
	set(&d.view.callbacks, key, c)
	set(&d.view.changes.Callbacks, key, c)
}

// dropCallback ends a callback with an event. The event is of no run: the run has
// had its last one.
func (d *decision) dropCallback(t *Task, c *Callback, delivered bool, detail string) {
	key := ChildRun{c.Task, c.Run}
	set(&d.view.callbacks, key, nil)
	set(&d.view.changes.Callbacks, key, nil)
	detail = excerpt.Tail(detail, maxDetail)
	d.emitAside(t, CallbackEnded{Run: c.Run, URL: c.URL, Delivered: delivered, Tries: c.Tries, Detail: detail})
}

// emitAside appends an event about a task that is no part of any run.
func (d *decision) emitAside(t *Task, kind EventKind) {
	d.emit(t, kind)
	events := d.view.changes.Events
	events[len(events)-1].Run = 0
}

func (n *needs) callback(run ChildRun) *Callback {
	n.task(run.Task)
	c, held := n.view.callbacks[run]
	if !held {
		n.Callbacks = append(n.Callbacks, run)
	}
	return c
}

func (c TakeCallback) needs(n *needs) { n.callback(ChildRun{c.Task, c.Run}) }

func (c TakeCallback) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	if err != nil {
		return nil, err
	}
	row := d.view.callbacks[ChildRun{c.Task, c.Run}]
	switch {
	case row == nil:
		return nil, ErrNoCallback
	case d.env.Now.Before(row.Due):
		return nil, ErrNotDue.With("%s to go", row.Due.Sub(d.env.Now))
	case row.Tries >= c.MaxTries:
		d.dropCallback(t, row, false, "the replicas that called were lost before they had an answer")
		return Done{}, nil
	}
	taken := *row
	taken.Tries++
	taken.Due = d.env.Now.Add(c.Lease)
	d.putCallback(&taken)
	return CallbackTaken{Callback: taken}, nil
}

func (c SettleCallback) needs(n *needs) { n.callback(ChildRun{c.Task, c.Run}) }

func (c SettleCallback) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	if err != nil {
		return nil, err
	}
	row := d.view.callbacks[ChildRun{c.Task, c.Run}]
	switch {
	case row == nil:
		return nil, ErrNoCallback
	case row.Tries != c.Try:
		return nil, ErrStale.With("try %d, the callback is at %d", c.Try, row.Tries)
	case c.Delivered:
		d.dropCallback(t, row, true, "")
	case c.Final || row.Tries >= c.MaxTries:
		d.dropCallback(t, row, false, c.Detail)
	default:
		again := *row
		again.Due = d.env.Now.Add(c.Retry)
		d.putCallback(&again)
	}
	return Done{}, nil
}
