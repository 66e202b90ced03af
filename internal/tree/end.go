package tree

// Park gives a run's worker back until its open calls are closed. Answer:
// [ParkedRun], or [Stored] with a boundary if they are closed already.
type Park struct{ From From }

// ParkedRun says that the run is parked.
type ParkedRun struct{}

// End ends a run with the model's answer, or with a failure. Answer: [Ended];
// [Stored] with a boundary if there is news that the run has to take in first;
// [ParkedRun] if it has to wait for its background children.
type End struct {
	From   From
	Answer *Message // nil: the run failed
	Reason Reason
	Detail string
}

// Ended says that the run has ended.
type Ended struct{ State State }

// Redeliver takes a run from a worker that was lost and offers it again; a run
// that has lost too many workers in a row fails as poisoned. Answer: [Done].
type Redeliver struct {
	Task  TaskID
	Epoch int64
	Blame bool // the worker, not the orchestrator, was lost
}

// Expire closes a waiting call whose time is up with what its task has said so
// far. Answer: [Done]. It is not an error if the call is closed already.
type Expire struct {
	Task TaskID
	Ref  CallRef
}

// Done says that a command of the orchestrator's own was carried out.
type Done struct{}

// MaxStrikes is how many workers in a row a run may lose without progress.
const MaxStrikes = 3

func (ParkedRun) isAnswer() {}
func (Ended) isAnswer()     {}
func (Done) isAnswer()      {}

func (c Park) needs(n *needs) { n.openCalls(n.task(c.From.Task)) }

func (c Park) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	if err != nil {
		return nil, err
	}
	if t.OpenCalls == 0 {
		d.took(t, c.From)
		return Stored{Boundary: t.NextOrdinal - 1}, nil
	}
	for _, call := range d.view.openCalls(t) {
		if call.State != CallWaiting {
			return nil, ErrNotWaiting.With("block %d", call.Ref.Block)
		}
	}
	d.took(t, c.From)
	d.park(t, ParkedOn{Kind: WaitCalls, Total: t.OpenCalls})
	return ParkedRun{}, nil
}

func (c End) needs(n *needs) { n.finish(n.task(c.From.Task)) }

func (c End) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	switch {
	case err != nil:
		return nil, err
	case t.OpenCalls > 0:
		return nil, ErrCallsOpen
	}
	if c.Answer == nil {
		detail, _ := bounded(c.Detail, maxDetail)
		if c.Reason == ReasonUnspecified || c.Reason > ReasonUnknown {
			c.Reason = ReasonUnknown
		}
		d.took(t, c.From)
		d.finish(t, StateFailed, c.Reason, detail)
		return Ended{State: StateFailed}, nil
	}
	if err := d.mayAnswer(t, c.Answer); err != nil {
		return nil, err
	}
	d.took(t, c.From)
	m := d.appendAnswer(t, *c.Answer)
	// A run that has used its allowance could do nothing with news: its answer
	// stands, and what is in the inbox waits for somebody to resume it.
	goesOn := t.Depth > 0 && t.Iterations < t.MaxIterations
	switch {
	case goesOn && t.Inbox > 0:
		d.takeInbox(t)
		return Stored{Ordinal: m.Ordinal, Boundary: t.NextOrdinal - 1}, nil
	case goesOn && t.LiveBackground > 0:
		d.park(t, ParkedOn{Kind: WaitBackground, Total: t.LiveBackground})
		return ParkedRun{}, nil
	}
	t.Answer = m.Ordinal
	d.finish(t, StateCompleted, ReasonUnspecified, "")
	return Ended{State: StateCompleted}, nil
}

func (d *decision) mayAnswer(t *Task, answer *Message) error {
	for _, b := range answer.Blocks {
		if _, ok := b.(ToolUse); ok {
			return ErrHasCalls
		}
	}
	if t.Iterations >= t.MaxIterations {
		return ErrBadInput.With("the run has used its %d model calls", t.MaxIterations)
	}
	return d.session().Limits.checkAnswer(answer)
}

func (c Redeliver) needs(n *needs) { n.finish(n.task(c.Task)) }

func (c Redeliver) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	switch {
	case err != nil:
		return nil, err
	case t.State != StateRunning || t.Epoch != c.Epoch:
		return nil, ErrStale.With("epoch %d, the task is at %d", c.Epoch, t.Epoch)
	}
	if c.Blame {
		t.Strikes++
	}
	if t.Strikes >= MaxStrikes {
		d.finish(t, StateFailed, ReasonPoisoned, "three workers in a row were lost while they ran it")
		return Done{}, nil
	}
	d.redeliver(t)
	return Done{}, nil
}

func (c Expire) needs(n *needs) {
	n.boundary(n.task(c.Task))
	if call := n.call(c.Task, c.Ref); call != nil && !call.Child.Task.IsZero() {
		n.task(call.Child.Task)
	}
}

func (c Expire) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	if err != nil {
		return nil, err
	}
	call := d.view.call(c.Task, c.Ref)
	if call == nil || call.State != CallWaiting {
		d.view.changes.Timers[CallKey(c)] = nil
		return Done{}, nil
	}
	d.stopWatching(call)
	call.Text = outputText(d.view.task(call.Child.Task))
	d.closeCall(t, call)
	return Done{}, nil
}
