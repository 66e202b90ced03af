package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// AppendAnswer stores an assistant message that calls tools, and opens the calls. Answer: [Stored].
type AppendAnswer struct {
	From
	Message Message // only blocks, model, usage and stop reason are used
}

// StartCall records that a tool which must not run twice is about to run. Answer: [Stored].
type StartCall struct {
	From
	Block int
}

// CloseCall stores the result of a call. Answer: [Stored].
type CloseCall struct {
	From
	Block   int
	Text    string
	IsError bool
	Denial  Denial // set if the permissions deny the call
}

// AwaitTask keeps a call open until the current run of a task below has ended, or the timeout has
// passed. Without a timeout the call is closed with the output so far. Answer: [Stored].
type AwaitTask struct {
	From
	Block   int
	Target  TaskID
	Timeout time.Duration
	Stop    bool // end the task first
}

// Report stores the run's current activity. Answer: [Stored].
type Report struct {
	From
	Activity string
	Output   string // of a command: the end of its output
}

// Stored says that a worker's request was stored.
type Stored struct {
	// Ordinal is the ordinal of the appended message.
	Ordinal int
	// Boundary is the ordinal of the transcript's last message if no call is open any more, else 0.
	// The model must see all messages up to it.
	Boundary int
	// Spent is set with a boundary, and says how the session's budget is used up. If it is not
	// empty, no model must be called.
	Spent string
	// Short is set with a boundary if the session's budget does not cover the estimated calls of
	// its runs. The run must be parked, and will be offered again.
	Short bool
	// Source is set with a boundary: the external source that the run acts for; empty: none.
	Source string
	// Approved answers [Ask]: the call may run.
	Approved bool
	// Launched are the commands among the requested children.
	Launched []Launch
}

func (Stored) isAnswer() {}

// stored answers a request that may have closed the last open call.
func (d *decision) stored(t *Task) Stored {
	if t.OpenCalls > 0 {
		return Stored{}
	}
	return d.atBoundary(t)
}

// atBoundary answers a request after which the model has to see the transcript in its current
// state.
func (d *decision) atBoundary(t *Task) Stored {
	s := d.session()
	return Stored{Boundary: t.NextOrdinal - 1, Spent: s.spent(), Short: s.mustYield(t), Source: t.Source}
}

func (c AppendAnswer) needs(n *needs) { n.task(c.From.Task) }

func (c AppendAnswer) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	if err != nil {
		return nil, err
	}
	var opened []*Call
	for i, b := range c.Message.Blocks {
		if use, ok := b.(ToolUse); ok {
			opened = append(opened, &Call{
				Task: t.ID, Ref: CallRef{t.NextOrdinal, i}, Tool: use.Name, State: CallOpen,
			})
		}
	}
	switch {
	case t.OpenCalls > 0:
		return nil, ErrCallsOpen
	case len(opened) == 0:
		return nil, ErrNoCalls
	case t.Iterations >= t.MaxIterations:
		return nil, ErrBadInput.With("the run has used all of its model calls (%d)", t.MaxIterations)
	}
	if err := d.session().Limits.checkAnswer(&c.Message); err != nil {
		return nil, err
	}
	d.recordRequest(t, c.From)
	for _, activity := range activities(c.Message.Blocks) {
		t.addActivity(activity)
	}
	m := d.appendAnswer(t, c.Message)
	for _, call := range opened {
		d.view.touchCall(call)
	}
	set(&d.view.open, t.ID, true)
	t.OpenMessage, t.OpenCalls = m.Ordinal, len(opened)
	t.RunTools += len(opened)
	t.ToolUses += len(opened)
	return Stored{Ordinal: m.Ordinal}, nil
}

// appendAnswer adds an assistant message and counts the model call.
func (d *decision) appendAnswer(t *Task, said Message) *Message {
	t.Iterations++
	t.AllIterations++
	d.session().ModelCalls++
	m := d.append(t, &Message{
		Role: RoleAssistant, Blocks: said.Blocks, Model: said.Model, Usage: said.Usage, Stop: said.Stop,
	})
	if m.hasText() {
		t.Answer = m.Ordinal
	}
	return m
}

// openCall gives an open call of the attempt's message that the worker handles itself.
func (d *decision) openCall(t *Task, block int) (*Call, error) {
	c := d.view.call(t.ID, CallRef{t.OpenMessage, block})
	switch {
	case c == nil:
		return nil, ErrNoCall.With("block %d", block)
	case c.State == CallClosed:
		return nil, ErrCallClosed.With("block %d", block)
	case c.State == CallWaiting:
		return nil, ErrBadInput.With("block %d waits for a task", block)
	case c.State == CallAsking:
		return nil, ErrBadInput.With("block %d waits for an approval", block)
	}
	return c, nil
}

// openCall also asks for what is read when the call is closed.
func (n *needs) openCall(f From, block int) {
	if t := n.task(f.Task); t != nil {
		n.boundary(t)
		n.call(t.ID, CallRef{t.OpenMessage, block})
	}
}

func (c StartCall) needs(n *needs) { n.openCall(c.From, c.Block) }

func (c StartCall) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	if err != nil {
		return nil, err
	}
	call, err := d.openCall(t, c.Block)
	if err != nil {
		return nil, err
	}
	d.recordRequest(t, c.From)
	call.State = CallStarted
	d.view.touchCall(call)
	return Stored{}, nil
}

func (c CloseCall) needs(n *needs) { n.openCall(c.From, c.Block) }

func (c CloseCall) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	if err != nil {
		return nil, err
	}
	call, err := d.openCall(t, c.Block)
	if err != nil {
		return nil, err
	}
	if err := d.session().Limits.checkPart("the result", c.Text); err != nil {
		return nil, err
	}
	d.recordRequest(t, c.From)
	call.Text, call.IsError = c.Text, c.IsError
	d.closeDenied(t, call, c.Denial)
	return d.stored(t), nil
}

func (c AwaitTask) needs(n *needs) {
	n.openCall(c.From, c.Block)
	n.ancestors(c.Target)
	n.watchers(n.task(c.Target))
	if c.Stop {
		n.cancel(c.Target)
	}
}

func (c AwaitTask) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	if err != nil {
		return nil, err
	}
	call, err := d.openCall(t, c.Block)
	if err != nil {
		return nil, err
	}
	d.recordRequest(t, c.From)
	target, err := d.below(t, c.Target)
	if t.Source != "" {
		err = errInternal(t)
	}
	switch {
	case err != nil:
		call.Text, call.IsError = err.Error(), true
		d.closeCall(t, call)
	case c.Stop:
		d.stopTask(t, call, target)
	case target.State.Terminal():
		call.Child, call.ByOutcome, call.Reads = ChildRun{target.ID, target.Run}, true, true
		call.IsError = target.State != StateCompleted
		d.closeCall(t, call)
	case c.Timeout <= 0:
		call.Child, call.Reads = ChildRun{target.ID, target.Run}, true
		d.setCallOutput(call, target)
		d.closeCall(t, call)
	default:
		call.State, call.Child, call.Reads = CallWaiting, ChildRun{target.ID, target.Run}, true
		d.watch(target, t, call)
		d.view.touchCall(call)
		d.setTimer(t, call.Ref, d.env.Now.Add(c.Timeout))
	}
	return d.stored(t), nil
}

// watch links a call to the current run of the task that it waits for.
func (d *decision) watch(target, t *Task, call *Call) {
	run := ChildRun{target.ID, target.Run}
	row := WaitRow{Target: run, Task: t.ID, Ref: call.Ref}
	set(&d.view.watchers, run, append(d.view.watchers[run], row))
	set(&d.view.changes.Waits, row, true)
	target.Watchers++
	d.view.touchTask(target)
}

// reportEvery is the minimum time between events about a run's activity.
const reportEvery = time.Second

func (c Report) needs(n *needs) { n.task(c.From.Task) }

func (c Report) decide(d *decision) (Answer, error) {
	t, err := d.inOrder(c.From)
	if err != nil {
		return nil, err
	}
	t.LastSeq = c.From.Seq
	if t.isShell() {
		t.setOutput(c.Output)
	} else {
		t.addActivity(excerpt.Head(c.Activity, maxActivity))
	}
	d.view.touchTask(t)
	if d.env.Now.Sub(t.ReportedAt) >= reportEvery {
		t.ReportedAt = d.env.Now
		d.emit(t, Progressed{
			Activity: t.Activity, ToolUses: t.RunTools, Tokens: t.RunUsage.Total(), Recent: t.RecentActivities(),
		})
	}
	return Stored{}, nil
}
