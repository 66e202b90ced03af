package tree

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/internal/policy"
)

// SpawnTask starts a child of a task for a client. Answer: [Spawned].
type SpawnTask struct {
	Parent TaskID // zero: the root
	Child  Child
	Notify bool   // the parent's conversation gets news of the end
	Source string // the external source of the request; empty: none
	Trace  Trace  // the parent of its run; zero: the parent task's last run
}

// Child describes a child that is to be started.
type Child struct {
	Agent       *Agent // nil: there is no agent of that name
	AgentName   string
	Description string
	Prompt      string
	Model       string        // empty: the agent's, or else the parent's
	Pin         ModelPin      // the resolved model of the call, or else of the agent; zero: the parent's
	NoModel     string        // a named model that does not exist; empty: all exist
	Timeout     time.Duration // of a run while it is RUNNING; 0: the agent's
	Deadline    time.Time     // of the run; zero: none
	Fork        bool          // it sees its parent's conversation; also if its agent says so

	Context       []string // further parts of its first message
	MaxIterations int      // model calls of a run; 0: the agent's
	OnComplete    string   // URL to call when a run has ended; empty: the agent's
}

// Spawned is the child that was started.
type Spawned struct{ Task TaskID }

// SpawnCalls starts the children that calls of one message ask for. A refused child closes its call
// with an error for the model, a background child closes it at once, and a foreground child leaves
// it waiting. A call that has its child already is skipped. Answer: [Stored].
type SpawnCalls struct {
	From
	Children []CallChild
}

// CallChild is the child that a call asks for.
type CallChild struct {
	Block int
	Child
	Resume     TaskID // a task below the caller that gets its next run instead
	Background bool
	Join       Join
	JoinFor    time.Duration // how long the call waits before the child moves to the background; 0: until the child's end
	Shell      *Shell        // the child is a command; of Child only the description is used
}

func (Spawned) isAnswer() {}

func (c SpawnTask) needs(n *needs) { n.task(n.view.session.OrRoot(c.Parent)) }

func (c SpawnTask) decide(d *decision) (Answer, error) {
	parent, err := d.task(d.session().OrRoot(c.Parent))
	if err != nil {
		return nil, err
	}
	if err := parent.MustBeAgent(); err != nil {
		return nil, err
	}
	if err := d.mayHaveChild(parent, c.Child); err != nil {
		return nil, err
	}
	if v := judgeTask(parent, c.Child.AgentName); v.Decision == policy.Deny {
		return nil, ErrDenied.With("%s", v.Why)
	}
	if err := checkSource(c.Source); err != nil {
		return nil, err
	}
	a := requester{background: true, source: c.Source, trace: c.Trace}
	if a.trace.IsZero() && parent.Run > 0 {
		a.trace = parent.childTrace()
	}
	if c.Notify {
		a.by = parent.ID
	}
	d.recordSpawn(KindAgent, nil)
	return Spawned{Task: d.spawn(parent, c.Child, a, forkOf(parent)).ID}, nil
}

// spawn starts a child. If the child is to see its parent's conversation, it continues from base.
func (d *decision) spawn(parent *Task, c Child, a requester, base Base) *Task {
	model := c.Model
	if model == InheritModel || model == "" && (c.Agent.Model == "" || c.Agent.Model == InheritModel) {
		model = parent.Model
	}
	t := d.newTask(TaskID(d.env.NewID()), parent, *c.Agent, model, c.Description)
	d.applyBounds(t, c)
	t.OnComplete = cmp.Or(c.OnComplete, t.OnComplete)
	if t.Pin = c.Pin; t.Pin.IsZero() {
		t.Pin = parent.Pin
	}
	t.Origin = cmp.Or(a.source, parent.Source, parent.Origin) // a parent without a run has no Source yet
	if c.Fork || c.Agent.ForkContext {
		t.continueFrom(base)
	}
	a.deadline = c.Deadline
	d.accept(t, a)
	d.append(t, &Message{Role: RoleUser, Blocks: c.messageBlocks()})
	return t
}

// applyBounds gives a task the requested limits of its runs.
func (d *decision) applyBounds(t *Task, c Child) {
	if c.Timeout > 0 {
		t.Timeout = c.Timeout
	}
	if c.MaxIterations > 0 {
		t.MaxIterations = c.MaxIterations
	}
}

// resetBounds gives a resumed task the requested limits, or else those of its definition. If the
// definition has changed since the task was made, the task keeps its limits, because only the
// current definition is at hand.
func (d *decision) resetBounds(t *Task, c Child) {
	if a := c.Agent; a != nil && a.Version == t.AgentVersion {
		limits := d.session().Limits
		t.Timeout, t.MaxIterations = limits.timeout(*a), limits.iterations(*a, t.Depth)
	}
	d.applyBounds(t, c)
}

func (c SpawnCalls) needs(n *needs) {
	n.boundary(n.task(c.From.Task))
	for _, child := range c.Children {
		if t := n.task(c.From.Task); t != nil {
			call := n.call(t.ID, CallRef{t.OpenMessage, child.Block})
			if child.Shell != nil && call != nil && !call.Child.Task.IsZero() {
				n.task(call.Child.Task)
			}
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
	d.recordRequest(t, c.From)
	var blocks []int
	message := t.OpenMessage
	for i, child := range c.Children {
		if child.isWantedBy(calls[i]) {
			d.spawnCall(t, calls[i], child)
		}
		if child.Shell != nil {
			blocks = append(blocks, child.Block)
		}
	}
	stored := d.stored(t)
	stored.Launched = d.launched(t, message, blocks)
	return stored, nil
}

// isWantedBy reports whether a call still needs its child. The call of a command may have started
// already.
func (c CallChild) isWantedBy(call *Call) bool {
	return call.State == CallOpen || call.State == CallApproved || call.State == CallStarted && c.Shell != nil
}

// kind is the kind of the child.
func (c CallChild) kind() Kind {
	if c.Shell != nil {
		return KindShell
	}
	return KindAgent
}

// spawnCall gives a call its child, or the refusal as its result.
func (d *decision) spawnCall(t *Task, call *Call, c CallChild) {
	a := requester{by: t.ID, call: call.Ref, background: c.Background}
	var child *Task
	err := d.mayJoin(c)
	switch {
	case err != nil:
	case c.Shell != nil:
		child, err = d.launch(t, call, c)
	case c.Resume.IsZero():
		if err = d.mayDelegate(t, call, c.AgentName); err == nil {
			err = d.mayHaveChild(t, c.Child)
		}
		if err == nil {
			child = d.spawn(t, c.Child, a, forkAt(t, call.Ref))
		}
	default:
		child, err = d.resume(t, call, c, a)
	}
	d.recordSpawn(c.kind(), err)
	if err != nil {
		d.refuse(t, call, err, c.denialOf(err))
		return
	}
	call.Child = ChildRun{child.ID, child.Run}
	if c.Shell != nil {
		call.Text = shellText(child, c.Shell)
		d.closeCall(t, call)
		return
	}
	if c.Background {
		call.Text = launchedText(child, t)
		d.closeCall(t, call)
		return
	}
	call.State, call.Join = CallWaiting, c.Join
	d.view.touchCall(call)
	if c.JoinFor > 0 {
		d.setTimer(t, call.Ref, d.env.Now.Add(c.JoinFor))
	}
}

// mayJoin refuses an invalid way of waiting for a child.
func (d *decision) mayJoin(c CallChild) error {
	switch {
	case (c.Background || c.Shell != nil) && d.session().Limits.NoBackground:
		return ErrNoBackground
	case c.JoinFor < 0 || c.JoinFor > maxJoin:
		return ErrBadInput.With("the join may take from 0 to %s", maxJoin)
	case c.Join > JoinMax:
		return ErrBadInput.With("there is no such join; of a group at most %d may be asked for", JoinMax)
	}
	return nil
}

// resume starts the next run of an ended task below the caller. If the task has a run under way,
// that run gets the prompt as a message, and a call in the foreground waits for it.
func (d *decision) resume(t *Task, call *Call, c CallChild, a requester) (*Task, error) {
	child, err := d.below(t, c.Resume)
	if err != nil {
		return nil, err
	}
	if err := d.mayDelegate(t, call, child.Agent); err != nil {
		return nil, err
	}
	if err := child.MustBeAgent(); err != nil {
		return nil, err
	}
	// Permission rules and people decide on the agent that the call names.
	if c.AgentName != "" && c.AgentName != child.Agent {
		return nil, ErrBadInput.With("the task is one of the agent %s, not %s", child.Agent, c.AgentName)
	}
	if Blank(c.Prompt) {
		return nil, ErrEmpty.With("prompt")
	}
	if err := c.checkText(d.session().Limits); err != nil {
		return nil, err
	}
	if err := d.checkIterations(c.Child); err != nil {
		return nil, err
	}
	prompt := c.messageBlocks()
	if child.State.Active() {
		if err := d.checkInboxRoom(child, prompt); err != nil {
			return nil, err
		}
	} else {
		if err := d.mayQueue(); err != nil {
			return nil, err
		}
		a.deadline = c.Deadline
		d.resetBounds(child, c.Child)
	}
	if child.State.Active() && !c.Background {
		d.watch(child, t, call)
	}
	d.deliverMessage(child, a, prompt)
	return child, nil
}

// below gives a task below the caller, or the refusal.
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

// launchedText is the result of a call whose child runs in the background. It says whether the end
// of the child's run will be reported as a message.
func launchedText(child, t *Task) string {
	message := "The agent works in the background. Its result will reach you as a message; do not wait for it unless you need it to go on."
	if !child.Background || child.Caller != t.ID {
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
