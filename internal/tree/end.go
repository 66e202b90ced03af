package tree

import (
	"fmt"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Park gives a run back until its open calls are closed, or until the session's budget has enough
// left for another call. Answer: [ParkedRun], or [Stored] with a boundary if there is nothing to
// wait for.
type Park struct{ From }

// ParkedRun says that the run is parked.
type ParkedRun struct{}

// End ends a run with the model's answer, or with a failure. There is a special case: a run that
// has answered, and could not take in later messages because the budget is spent, completes with
// that answer, and Left becomes its detail.
//
// Answer: [Ended]; [Stored] with a boundary if the run has to take in its inbox first; [ParkedRun]
// if it has to wait for its background children.
type End struct {
	From
	Answer *Message // nil: the run failed
	Reason Reason
	Detail string
	Left   string // what the run leaves behind in its workspace, for its result
}

// Ended says that the run has ended.
type Ended struct{ State State }

// Redeliver takes a run from a lost worker and offers it again. If its agent does not allow that,
// the run fails. A run that has lost too many workers in a row fails as poisoned. Answer: [Done].
type Redeliver struct {
	Task   TaskID
	Epoch  int64
	Attach int  // the stream that broke; 0: any
	Blame  bool // the worker was lost, not the orchestrator
}

// Expire handles a timer that is due: a waiting call is closed with what its task has said so far,
// and a run whose time is up fails. It is not an error if the timer no longer applies. Answer:
// [Done].
type Expire struct {
	Task TaskID
	Ref  CallRef
	Due  time.Time // the timer's due time; zero: any timer
}

// stale reports whether the timer that is due no longer applies: what is waited for now began after
// that timer was due, or has a later due time.
func (c Expire) stale(began, due time.Time) bool {
	return !c.Due.IsZero() && (c.Due.Before(due) || !c.Due.After(began))
}

// Done is the answer of commands without a result.
type Done struct{}

// DoneTo is the answer of commands about a task without another result.
type DoneTo struct{ Task TaskID }

// MaxStrikes is how many workers in a row a run may lose without progress.
const MaxStrikes = 3

func (ParkedRun) isAnswer() {}
func (Ended) isAnswer()     {}
func (Done) isAnswer()      {}
func (DoneTo) isAnswer()    {}

func (c Park) needs(n *needs) { n.openCalls(n.task(c.From.Task)) }

func (c Park) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	if err != nil {
		return nil, err
	}
	if t.OpenCalls == 0 {
		d.recordRequest(t, c.From)
		if d.session().mustYield(t) {
			d.yieldForBudget(t)
			return ParkedRun{}, nil
		}
		return d.atBoundary(t), nil
	}
	approved := false
	for _, call := range d.view.openCalls(t) {
		switch call.State {
		case CallWaiting, CallAsking:
		case CallApproved:
			approved = true
		default:
			return nil, ErrNotWaiting.With("block %d", call.Ref.Block)
		}
	}
	d.recordRequest(t, c.From)
	d.park(t, ParkedOn{Kind: WaitCalls, Total: t.OpenCalls})
	if approved { // while the worker did something else
		d.wake(t)
	}
	return ParkedRun{}, nil
}

func (c End) needs(n *needs) { n.complete(n.task(c.From.Task)) }

func (c End) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	switch {
	case err != nil:
		return nil, err
	case t.OpenCalls > 0:
		return nil, ErrCallsOpen
	}
	if c.Answer == nil {
		d.recordRequest(t, c.From)
		if c.Reason == ReasonBudgetExhausted && t.answered() {
			return d.complete(t, excerpt.Tail(c.Left, maxDetail)), nil
		}
		detail := excerpt.Tail(c.Detail, maxDetail)
		if c.Reason == ReasonUnspecified || c.Reason > ReasonUnknown {
			c.Reason = ReasonUnknown
		}
		d.finish(t, StateFailed, c.Reason, detail)
		return Ended{State: StateFailed}, nil
	}
	if err := d.mayAnswer(t, c.Answer); err != nil {
		return nil, err
	}
	d.recordRequest(t, c.From)
	m := d.appendAnswer(t, *c.Answer)
	// A run that may not call its model again cannot use news: its answer stands, and its inbox
	// waits until the task is resumed.
	goesOn := t.Depth > 0 && d.mayCallModel(t)
	switch {
	case goesOn && t.Inbox > 0:
		d.takeInbox(t)
		stored := d.atBoundary(t)
		stored.Ordinal = m.Ordinal
		return stored, nil
	case goesOn && t.LiveBackground > 0:
		d.park(t, ParkedOn{Kind: WaitBackground, Total: t.LiveBackground})
		return ParkedRun{}, nil
	}
	m.AppendLine(c.Left, d.session().Limits.PartBytes)
	return d.complete(t, ""), nil
}

// complete ends a run with its last message as the answer; left is what the run leaves behind that
// the answer does not say.
func (d *decision) complete(t *Task, left string) Ended {
	t.Answer = t.LastAnswer
	d.finish(t, StateCompleted, ReasonUnspecified, left)
	return Ended{State: StateCompleted}
}

func (d *decision) mayAnswer(t *Task, answer *Message) error {
	if answer.MakesCalls() {
		return ErrHasCalls
	}
	if t.Iterations >= t.MaxIterations {
		return ErrBadInput.With("the run has used all of its model calls (%d)", t.MaxIterations)
	}
	return d.session().Limits.checkAnswer(answer)
}

func (c Redeliver) needs(n *needs) {
	t := n.task(c.Task)
	if _, ends := c.failure(t); ends {
		n.fail(t)
		return
	}
	n.finish(t)
}

// failure gives the reason with which the run fails if it has lost its worker; false if it
// continues.
func (c Redeliver) failure(t *Task) (Reason, bool) {
	switch {
	case t == nil || t.State != StateRunning:
		return 0, false
	case t.isShell():
		return ReasonInterrupted, true
	case c.Blame && t.Strikes+1 >= MaxStrikes:
		return ReasonPoisoned, true
	case t.FailOnInterrupt && (c.Blame || t.LastSeq > 0):
		return ReasonInterrupted, true
	}
	return 0, false
}

func (c Redeliver) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	switch {
	case err != nil:
		return nil, err
	case t.State != StateRunning || t.Epoch != c.Epoch:
		return nil, ErrStale.With("epoch %d, the task has epoch %d", c.Epoch, t.Epoch)
	case c.Attach != 0 && c.Attach != t.Attach:
		return nil, ErrStale.With("the attempt has moved to another stream")
	}
	reason, ends := c.failure(t)
	if c.Blame {
		t.Strikes++
	}
	switch {
	case !ends:
		d.redeliver(t)
	case reason == ReasonPoisoned:
		d.fail(t, reason, "three workers in a row were lost while they ran it")
	case t.isShell():
		d.fail(t, reason, "its worker was lost, or has stopped")
	default:
		d.fail(t, reason, "its worker was lost, and the agent is not to be gone on with")
	}
	return Done{}, nil
}

func (c Expire) needs(n *needs) {
	if c.ofRun() {
		n.fail(n.task(c.Task))
		return
	}
	n.boundary(n.task(c.Task))
	call := n.call(c.Task, c.Ref)
	switch {
	case call == nil:
	case call.State == CallAsking:
		n.approval(call.Approval)
	case call.State == CallWaiting && !call.Child.Task.IsZero():
		if child := n.task(call.Child.Task); child != nil && child.isAwaitedBy(call) && n.view.session.Limits.NoBackground {
			n.cancel(child.ID)
		}
	}
}

func (c Expire) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	if err != nil {
		return nil, err
	}
	if c.ofRun() {
		set(&d.view.changes.Timers, CallKey{c.Task, c.Ref}, nil)
		d.handleRunTimeout(t, c.Ref)
		return Done{}, nil
	}
	call := d.view.call(c.Task, c.Ref)
	switch {
	case call != nil && call.State == CallAsking:
		if a := d.view.approval(call.Approval); !c.stale(a.AskedAt, a.Due) {
			d.expireApproval(t, call)
		}
	case call != nil && call.State == CallWaiting:
		if child := d.view.task(call.Child.Task); !child.isAwaitedBy(call) || !c.stale(child.AcceptedAt, time.Time{}) {
			d.handleJoinTimeout(t, call)
		}
	default:
		set(&d.view.changes.Timers, CallKey{c.Task, c.Ref}, nil)
	}
	return Done{}, nil
}

// ofRun reports whether the timer belongs to a run, not to a call.
func (c Expire) ofRun() bool { return c.Ref.Message == 0 }

// handleRunTimeout ends a run whose time is up. A timer of an earlier attempt or run is ignored.
func (d *decision) handleRunTimeout(t *Task, timer CallRef) {
	var due time.Time
	var reason Reason
	var detail string
	switch {
	case timer == timeoutRef && t.State == StateRunning && t.Timeout > 0:
		due = t.timeoutDue(t.ClaimedAt)
		reason, detail = ReasonTimeout, fmt.Sprintf("the run was at work for %s", t.Timeout)
	case timer == deadlineRef && t.State.Active() && !t.Deadline.IsZero():
		due = t.Deadline
		reason, detail = ReasonDeadline, "the deadline has passed"
	default:
		return
	}
	if d.env.Now.Before(due) {
		d.setTimer(t, timer, due)
		return
	}
	d.fail(t, reason, detail)
}
