package tree

// From says which attempt a worker's request comes from, and the number of the request, counted
// from 1. Only the next request of the current attempt is accepted. Commands of workers embed it.
type From struct {
	Task   TaskID
	Token  Token
	Attach int // the stream that the request came over
	Seq    int64
}

// ofWorker is a command that the worker of a run sends; all of them embed From.
type ofWorker interface{ isOfWorker() }

func (From) isOfWorker() {}

// Claim gives a pending run to a worker. A repeat by a worker that did not get the answer returns
// it again, and moves the attempt to the stream of the repeat. Answer: [Claimed].
type Claim struct {
	Task   TaskID
	Token  Token
	Worker string
}

// Claimed is the task as it was claimed, with what the worker needs of its session. Spent says how
// the session's budget is used up; if it is not empty, no model must be called. It must not be
// changed.
type Claimed struct {
	Task         Task
	Tenant       string
	PartBytes    int
	NoBackground bool
	Workspace    string
	Spent        string
}

// Reattach moves an attempt to another stream of its worker, because the last one broke. Answer:
// [Reattached].
type Reattach struct {
	Task  TaskID
	Token Token
}

// Reattached is the reattached task and its tenant. Its LastSeq says which requests were accepted
// before the last stream broke.
type Reattached struct {
	Task   Task
	Tenant string
}

// Repeat returns the answer to a request that was accepted before. Answer: [Stored].
type Repeat struct {
	From
	Answered bool  // the request added an assistant message
	Asked    *int  // the block for which the request asked for approval, if it did
	Summed   bool  // the request added a summary
	Launched []int // the blocks for which the request asked for commands
}

func (Claimed) isAnswer()    {}
func (Reattached) isAnswer() {}

// attempt gives the task of a request that only the worker of an agent may make.
func (d *decision) attempt(f From) (*Task, error) {
	t, err := d.inOrder(f)
	if err == nil {
		err = t.MustBeAgent()
	}
	return t, err
}

// inOrder gives the task of a worker's request, if it is the next request of the current attempt.
func (d *decision) inOrder(f From) (*Task, error) {
	t, err := d.currentAttempt(f.Task, f.Token)
	switch {
	case err != nil:
		return nil, err
	case t.Attach != f.Attach:
		return nil, ErrStale.With("the attempt has moved to another stream")
	case f.Seq != t.LastSeq+1:
		return nil, ErrOutOfOrder.With("got request %d, the last one accepted was %d", f.Seq, t.LastSeq)
	}
	return t, nil
}

// shellAttempt gives the task of a request that only the worker of a command may make.
func (d *decision) shellAttempt(f From) (*Task, error) {
	t, err := d.inOrder(f)
	if err == nil && !t.isShell() {
		return nil, ErrBadInput.With("the task is not a command")
	}
	return t, err
}

// currentAttempt gives a task, if the token is that of its current attempt.
func (d *decision) currentAttempt(id TaskID, token Token) (*Task, error) {
	t, err := d.task(id)
	if err == nil && (t.State != StateRunning || t.Token() != token) {
		err = ErrStale.With("epoch %d, the task has epoch %d", token.Epoch, t.Epoch)
	}
	return t, err
}

// recordRequest marks a worker's request as accepted: the attempt makes progress.
func (d *decision) recordRequest(t *Task, f From) {
	t.LastSeq, t.Strikes = f.Seq, 0
	d.view.touchTask(t)
}

func (c Claim) needs(n *needs) { n.boundary(n.task(c.Task)) }

func (c Claim) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	s := d.session()
	switch {
	case err != nil:
		return nil, err
	case t.isShell():
		return nil, ErrNotReady.With("the task is a command, which workers cannot claim")
	case t.State == StateRunning && t.Token() == c.Token && t.LastSeq == 0:
		d.attach(t)
		return d.claimed(t), nil
	case t.State != StatePending || t.Epoch != c.Token.Epoch:
		return nil, ErrNotReady.With("epoch %d, the task has epoch %d", c.Token.Epoch, t.Epoch)
	case s.Running >= s.Cap():
		return nil, ErrCapped.With("%d", s.Cap())
	}
	if err := checkName("the worker", c.Worker); err != nil {
		return nil, err
	}
	d.claim(t, c.Token.Nonce, c.Worker)
	return d.claimed(t), nil
}

// claimed gives a worker the run, with what has arrived in its inbox.
func (d *decision) claimed(t *Task) *Claimed {
	if t.OpenCalls == 0 {
		d.takeInboxForModel(t)
	}
	s := d.session()
	return &Claimed{
		Task: *t, Tenant: s.Tenant, PartBytes: s.Limits.PartBytes, NoBackground: s.Limits.NoBackground, Workspace: s.Workspace,
		Spent: s.spent(),
	}
}

func (c Reattach) needs(n *needs) { n.task(c.Task) }

func (c Reattach) decide(d *decision) (Answer, error) {
	t, err := d.currentAttempt(c.Task, c.Token)
	if err != nil {
		return nil, err
	}
	d.attach(t)
	return Reattached{Task: *t, Tenant: d.session().Tenant}, nil
}

func (c Repeat) needs(n *needs) {
	t := n.task(c.From.Task)
	if t != nil && c.Asked != nil {
		n.call(t.ID, CallRef{t.OpenMessage, *c.Asked})
	}
	if t != nil {
		n.launched(t, t.LastAnswer, c.Launched)
	}
}

func (c Repeat) decide(d *decision) (Answer, error) {
	t, err := d.currentAttempt(c.From.Task, c.From.Token)
	switch {
	case err != nil:
		return nil, err
	case t.Attach != c.From.Attach:
		return nil, ErrStale.With("the attempt has moved to another stream")
	case c.From.Seq > t.LastSeq:
		return nil, ErrOutOfOrder.With("request %d was never accepted, the last one accepted was %d", c.From.Seq, t.LastSeq)
	}
	var again Stored
	if c.Answered {
		again.Ordinal = t.LastAnswer
	}
	if c.Asked != nil {
		call := d.view.call(t.ID, CallRef{t.OpenMessage, *c.Asked})
		again.Approved = call != nil && call.State == CallApproved
	}
	if c.Summed {
		again.Ordinal = t.Compacted
	}
	again.Launched = d.launched(t, t.LastAnswer, c.Launched)
	// A worker sends nothing past a boundary that it does not know of, so only the last accepted
	// request can have reached one.
	if c.From.Seq == t.LastSeq {
		now := d.stored(t)
		again.Boundary, again.Spent, again.Short, again.Source = now.Boundary, now.Spent, now.Short, now.Source
	}
	return again, nil
}
