package tree

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/policy"
)

// Shell is a command that is to be a task of its own. It belongs to the worker that
// asks for it from the start: nobody else is offered it, it takes no place among the
// runs that a session may have with workers, and it runs once.
type Shell struct {
	Line    string
	Nonce   uint64        // of its only attempt, chosen by the worker
	Timeout time.Duration // 0: none
	File    string        // where the worker keeps what it prints
	ByUser  bool          // it was begun in the foreground, and a user has moved it
}

// Launch is a command that has become a task, in its first and only delivery.
type Launch struct {
	Block int
	Task  TaskID
	Epoch int64
}

// EndShell ends the run of a command. Answer: [Ended].
type EndShell struct {
	From
	Output string // what it has printed, as far as it is to be kept
	Reason Reason // unspecified: it has ended well
	Detail string
}

// BackgroundCommands asks the worker of a run to let commands go on in the background
// that the run waits for. Each becomes a task then. Answer: [Done].
type BackgroundCommands struct{ Task TaskID }

// ReleasedCommands is a run whose commands are to go on in the background: those of a message.
type ReleasedCommands struct {
	Session SessionID
	Task    TaskID
	Epoch   int64
	Message int
}

const (
	// shellGrace is how much longer than its time a command may be RUNNING: its worker
	// sees to the timeout, and knows what it has printed last.
	shellGrace = 10 * time.Second
	// maxShellOutput bounds what is known of the output of a command under way, in bytes.
	maxShellOutput = 16 << 10
	noOutput       = "[no output]"
)

// isShell reports whether a task runs a command.
func (t *Task) isShell() bool { return t.Kind == KindShell }

// MustBeAgent refuses what only agents can do.
func (t *Task) MustBeAgent() error {
	if t.isShell() {
		return ErrNotAnAgent.With("%s is a command", t.ID)
	}
	return nil
}

// launch makes the command of a call a task that runs.
func (d *decision) launch(t *Task, call *Call, c CallChild) (*Task, error) {
	if err := d.mayLaunch(t, call, c); err != nil {
		return nil, err
	}
	shell := d.newTask(TaskID(d.env.NewID()), t, Agent{}, "", c.label())
	shell.Kind, shell.MaxIterations, shell.Timeout = KindShell, 0, c.Shell.Timeout
	shell.Origin = t.Source
	d.accept(shell, requester{by: t.ID, call: call.Ref, background: true})
	d.append(shell, &Message{Role: RoleUser, Blocks: []Block{Text{Text: c.Shell.Line}}})
	d.claim(shell, c.Shell.Nonce, t.Worker)
	return shell, nil
}

// label is what a command is for: what it says itself, if nobody has said it.
func (c CallChild) label() string {
	if c.Description != "" {
		return c.Description
	}
	return excerpt.Head(strings.Join(strings.Fields(c.Shell.Line), " "), activityLength)
}

func (d *decision) mayLaunch(t *Task, call *Call, c CallChild) error {
	limits := d.session().Limits
	switch {
	case Blank(c.Shell.Line):
		return ErrEmpty.With("command")
	case c.Shell.Timeout < 0:
		return ErrBadInput.With("the timeout is negative")
	case t.Children+1 > limits.Width:
		return ErrTooWide.With("%d children of one task", limits.Width)
	case d.session().Total+1 > limits.Total:
		return ErrTooMany.With("%d tasks of one session", limits.Total)
	}
	// Before it is judged, which takes longer the longer it is.
	if err := limits.checkPart("the command", c.Shell.Line); err != nil {
		return err
	}
	if err := checkName("the description", c.label()); err != nil {
		return err
	}
	if err := checkName("the file", c.Shell.File); err != nil {
		return err
	}
	v := t.Authority.Judge(policy.Call{Tool: call.Tool, Kind: policy.KindCommand, Argument: c.Shell.Line})
	if v.Decision == policy.Deny {
		return ErrDenied.With("%s", v.Why)
	}
	return nil
}

// launched gives the commands among the calls of a message that are tasks by now.
func (d *decision) launched(t *Task, message int, blocks []int) []Launch {
	var all []Launch
	for _, block := range blocks {
		call := d.view.call(t.ID, CallRef{message, block})
		if call == nil || call.Child.Task.IsZero() {
			continue
		}
		if child := d.view.task(call.Child.Task); child.isShell() {
			all = append(all, Launch{Block: block, Task: child.ID, Epoch: 1})
		}
	}
	return all
}

func (n *needs) launched(t *Task, message int, blocks []int) {
	if t == nil {
		return
	}
	for _, block := range blocks {
		if call := n.call(t.ID, CallRef{message, block}); call != nil && !call.Child.Task.IsZero() {
			n.task(call.Child.Task)
		}
	}
}

// shellText is the result of a call whose command runs in the background.
func shellText(shell *Task, c *Shell) string {
	message := "The command runs in the background. Its end will reach you as a message; task_output shows what it prints, kill_task ends it."
	if c.ByUser {
		message = "The user has moved the command to the background; it goes on there. " + message
	}
	text, err := json.Marshal(struct {
		TaskID  TaskID `json:"task_id"`
		Status  string `json:"status"`
		Result  string `json:"result"`
		ByUser  bool   `json:"backgrounded_by_user,omitempty"`
		File    string `json:"output_file,omitempty"`
		Message string `json:"message"`
	}{shell.ID, queuedOrRunning(shell), "async_launched", c.ByUser, c.File, message})
	if err != nil {
		panic(fmt.Sprintf("tree: encoding a launch: %v", err))
	}
	return string(text)
}

func (c EndShell) needs(n *needs) { n.finish(n.task(c.From.Task)) }

func (c EndShell) decide(d *decision) (Answer, error) {
	t, err := d.shellAttempt(c.From)
	if err != nil {
		return nil, err
	}
	d.recordRequest(t, c.From)
	t.Output = c.Output
	if c.Reason == ReasonUnspecified {
		d.finish(t, StateCompleted, ReasonUnspecified, "")
		return Ended{State: StateCompleted}, nil
	}
	if c.Reason > ReasonUnknown {
		c.Reason = ReasonUnknown
	}
	detail := excerpt.Tail(c.Detail, maxDetail)
	d.finish(t, StateFailed, c.Reason, detail)
	return Ended{State: StateFailed}, nil
}

// appendOutput makes what a command has printed its answer, however it ends.
func (d *decision) appendOutput(t *Task) {
	text := excerpt.Tail(t.Output, d.session().Limits.PartBytes)
	if text == "" {
		text = noOutput
	}
	t.Output = ""
	t.Answer = d.append(t, &Message{Role: RoleAssistant, Blocks: []Block{Text{Text: text}}}).Ordinal
}

// setOutput notes what a command has printed last.
func (t *Task) setOutput(output string) {
	t.Output = excerpt.Tail(output, maxShellOutput)
	lines := strings.Split(strings.TrimSpace(t.Output), "\n")
	t.addActivity(excerpt.Head(lines[len(lines)-1], maxActivity))
}

func (c BackgroundCommands) needs(n *needs) { n.openCalls(n.task(c.Task)) }

func (c BackgroundCommands) decide(d *decision) (Answer, error) {
	t, err := d.task(c.Task)
	switch {
	case err != nil:
		return nil, err
	case !t.State.Active():
		return nil, ErrEnded.With("it is %s", t.State)
	case d.session().Limits.NoBackground:
		return nil, ErrNoBackground
	}
	if err := t.MustBeAgent(); err != nil {
		return nil, err
	}
	if !d.releaseCommands(t) {
		return nil, ErrNothingRuns
	}
	return Done{}, nil
}

// releaseCommands has the worker of a run let commands go on in the background, and reports
// whether any call may be running one.
func (d *decision) releaseCommands(t *Task) bool {
	running := func(c *Call) bool { return c.State == CallStarted }
	if t.State != StateRunning || t.OpenCalls == 0 || !slices.ContainsFunc(d.view.openCalls(t), running) {
		return false
	}
	t.Release = t.OpenMessage
	d.view.touchTask(t)
	d.view.changes.Released = append(d.view.changes.Released, ReleasedCommands{
		Session: t.Session, Task: t.ID, Epoch: t.Epoch, Message: t.Release,
	})
	return true
}

// stopTask ends a task that a call wants ended, and closes the call with what it was.
// The caller hears of the end by that alone.
func (d *decision) stopTask(t *Task, call *Call, target *Task) {
	out := OutputOf(target)
	message := "It was " + out.Status + " and is ended, with all below it."
	if target.State.Terminal() {
		message = "It had ended before."
	}
	text, err := json.Marshal(struct {
		TaskID      TaskID `json:"task_id"`
		Kind        string `json:"kind"`
		Status      string `json:"status"`
		Description string `json:"description,omitempty"`
		Message     string `json:"message"`
		Output      string `json:"output,omitempty"`
	}{target.ID, out.Kind, stopped(target).String(), target.Description, message, out.Output})
	if err != nil {
		panic(fmt.Sprintf("tree: encoding the end of a task: %v", err))
	}
	call.Text = string(text)
	if out.Output != "" {
		t.Source = cmp.Or(t.Source, target.Source)
	}
	d.closeCall(t, call)
	if target.State.Active() {
		d.withMuted([]*Task{t}, func() { d.cancel(target, ReasonCancelledByParent, "ended by a task above it") })
	}
}

// stopped is the state that a task is in once it was ended.
func stopped(t *Task) State {
	if t.State.Terminal() {
		return t.State
	}
	return StateCancelled
}
