package tree

import (
	"encoding/json"
	"fmt"
	"time"
)

// SpawnTask starts a child of a task on a client's behalf. Answer: [Spawned].
type SpawnTask struct {
	Parent TaskID // zero: the root
	Child  Child
	Notify bool // the parent's conversation is told of the end
}

// Child is what is known of a child that is to be started.
type Child struct {
	Agent       *Agent // nil: there is no agent of that name
	AgentName   string
	Description string
	Prompt      string
	Model       string        // empty: the agent's, then the parent's
	Timeout     time.Duration // of a run while it is RUNNING; 0: the agent's
	Deadline    time.Time     // of the run; zero: none
}

// Spawned is the child that was started.
type Spawned struct{ Task TaskID }

// SpawnCalls starts the children that calls of one message ask for, with a
// verdict each: a refused child closes its call with an error that the model can
// read, a background child closes it at once, a foreground child leaves it
// waiting. A call that has its child already is passed over. Answer: [Stored].
type SpawnCalls struct {
	From     From
	Children []CallChild
}

// CallChild is the child that one call asks for.
type CallChild struct {
	Block int
	Child
	Resume     TaskID // a task below the caller that gets another run instead
	Background bool
}

func (Spawned) isAnswer() {}

func (c SpawnTask) parent(v *View) TaskID {
	if c.Parent.IsZero() && v.session != nil {
		return v.session.Root
	}
	return c.Parent
}

func (c SpawnTask) needs(n *needs) { n.task(c.parent(n.view)) }

func (c SpawnTask) decide(d *decision) (Answer, error) {
	parent, err := d.task(c.parent(d.view))
	if err != nil {
		return nil, err
	}
	if err := d.mayHaveChild(parent, c.Child); err != nil {
		return nil, err
	}
	a := asked{background: true}
	if c.Notify {
		a.by = parent.ID
	}
	return Spawned{Task: d.spawn(parent, c.Child, a).ID}, nil
}

// mayHaveChild refuses a child that breaks a cap or can't be spawned.
func (d *decision) mayHaveChild(parent *Task, c Child) error {
	limits := d.session().Limits
	if err := checkName("the agent", c.AgentName); err != nil {
		return err
	}
	switch {
	case c.Agent == nil:
		return ErrNoAgent.With("%s", c.AgentName)
	case !c.Agent.Mode.MayBeSpawned():
		return ErrNotSubagent.With("%s", c.AgentName)
	case c.Prompt == "":
		return ErrEmpty.With("prompt")
	case parent.Depth+1 > limits.Depth:
		return ErrTooDeep.With("%d", limits.Depth)
	case parent.Children+1 > limits.Width:
		return ErrTooWide.With("%d children of one task", limits.Width)
	case d.session().Total+1 > limits.Total:
		return ErrTooMany.With("%d tasks of one session", limits.Total)
	case c.Timeout < 0:
		return ErrBadInput.With("the timeout is negative")
	}
	if err := d.mayQueue(); err != nil {
		return err
	}
	if err := checkName("the description", c.Description); err != nil {
		return err
	}
	if err := checkName("the model", c.Model); err != nil {
		return err
	}
	return limits.checkPart("the prompt", c.Prompt)
}

// mayQueue refuses a run when too many wait for a worker.
func (d *decision) mayQueue() error {
	if s := d.session(); s.Limits.Queue > 0 && s.Pending >= s.Limits.Queue {
		return ErrQueue.With("%d", s.Limits.Queue)
	}
	return nil
}

func (d *decision) spawn(parent *Task, c Child, a asked) *Task {
	model := c.Model
	if model == "" && c.Agent.Model == "" {
		model = parent.Model
	}
	t := d.newTask(TaskID(d.env.NewID()), parent, *c.Agent, model, c.Description)
	if c.Timeout > 0 {
		t.Timeout = c.Timeout
	}
	a.deadline = c.Deadline
	d.accept(t, a)
	d.append(t, &Message{Role: RoleUser, Blocks: []Block{Text{Text: c.Prompt}}})
	return t
}

func (c SpawnCalls) needs(n *needs) {
	n.boundary(n.task(c.From.Task))
	for _, child := range c.Children {
		if t := n.task(c.From.Task); t != nil {
			n.call(t.ID, CallRef{t.OpenMessage, child.Block})
		}
		if !child.Resume.IsZero() {
			n.ancestors(child.Resume)
			n.boundary(n.task(child.Resume))
			n.watchers(n.task(child.Resume))
		}
	}
}

func (c SpawnCalls) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	if err != nil {
		return nil, err
	}
	calls := make([]*Call, len(c.Children))
	for i, child := range c.Children {
		call := d.view.call(t.ID, CallRef{t.OpenMessage, child.Block})
		if call == nil {
			return nil, ErrNoCall.With("block %d", child.Block)
		}
		calls[i] = call
	}
	d.took(t, c.From)
	for i, child := range c.Children {
		if calls[i].State == CallOpen {
			d.spawnCall(t, calls[i], child)
		}
	}
	return d.stored(t), nil
}

// spawnCall gives one call its child, or its refusal as the result.
func (d *decision) spawnCall(t *Task, call *Call, c CallChild) {
	a := asked{by: t.ID, call: call.Ref, background: c.Background}
	var child *Task
	var err error
	if c.Resume.IsZero() {
		if err = d.mayHaveChild(t, c.Child); err == nil {
			child = d.spawn(t, c.Child, a)
		}
	} else {
		child, err = d.resume(t, call, c, a)
	}
	if err != nil {
		call.Text, call.IsError = err.Error(), true
		d.closeCall(t, call)
		return
	}
	call.Child = ChildRun{child.ID, child.Run}
	if c.Background {
		call.Text = launchedText(child, child.Background && child.Caller == t.ID)
		d.closeCall(t, call)
		return
	}
	call.State = CallWaiting
	d.view.touchCall(call)
}

// resume gives an ended task below the caller its next run; a running one is
// steered with the prompt, and its current run awaited.
func (d *decision) resume(t *Task, call *Call, c CallChild, a asked) (*Task, error) {
	child, err := d.below(t, c.Resume)
	if err != nil {
		return nil, err
	}
	limits := d.session().Limits
	if c.Prompt == "" {
		return nil, ErrEmpty.With("prompt")
	}
	if err := limits.checkPart("the prompt", c.Prompt); err != nil {
		return nil, err
	}
	if child.State.Active() && child.Inbox >= limits.Inbox {
		return nil, ErrInbox.With("%d, the bound is %d", child.Inbox, limits.Inbox)
	}
	if !child.State.Active() {
		if err := d.mayQueue(); err != nil {
			return nil, err
		}
		a.deadline = c.Deadline
	}
	if child.State.Active() && !c.Background {
		d.watch(child, t, call)
	}
	d.say(child, a, []Block{Text{Text: c.Prompt}})
	return child, nil
}

// below gives a task that is below the caller, or the refusal.
func (d *decision) below(caller *Task, id TaskID) (*Task, error) {
	t := d.view.task(id)
	if t == nil {
		return nil, ErrNoTask.With("%s", id)
	}
	for up := t; !up.Parent.IsZero(); up = d.view.task(up.Parent) {
		if up.Parent == caller.ID {
			return t, nil
		}
	}
	return nil, ErrNotBelow.With("%s", id)
}

// launchedText is the result of a call whose child runs in the background.
// told says whether the end of its run will reach the caller as a message.
func launchedText(child *Task, told bool) string {
	message := "The agent works in the background. Its result will reach you as a message; do not wait for it unless you need it to go on."
	if !told {
		message = "The agent was at work already; your prompt reaches it at its next step. Its end is not reported to you: read it with task_output."
	}
	text, err := json.Marshal(struct {
		TaskID  TaskID `json:"task_id"`
		Status  string `json:"status"`
		Result  string `json:"result"`
		Message string `json:"message"`
	}{
		TaskID: child.ID, Status: queuedOrRunning(child), Result: "async_launched", Message: message,
	})
	if err != nil {
		panic(fmt.Sprintf("tree: encoding a launch: %v", err))
	}
	return string(text)
}

func queuedOrRunning(t *Task) string {
	if t.State == StatePending && t.StartedAt.IsZero() {
		return "queued"
	}
	return "running"
}
