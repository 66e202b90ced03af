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

// Shell is a command that becomes a task of its own. It belongs to the worker that asks for it from
// the start: it is offered to no other worker, does not count for the cap on running tasks, and
// runs once.
type Shell struct {
	Line    string
	Nonce   uint64        // of its only attempt; the worker chooses it
	Timeout time.Duration // 0: none
	File    string        // where the worker stores its output
	ByUser  bool          // it started in the foreground, and a user has moved it
}

// Launch is a command that has become a task, with its only attempt.
type Launch struct {
	Block int
	Task  TaskID
	Epoch int64
}

// EndShell ends the run of a command. Answer: [Ended].
type EndShell struct {
	From
	Output string // the part of its output to keep
	Reason Reason // unspecified: it succeeded
	Detail string
}

// BackgroundCommands asks the worker of a run to move the commands that the run waits for to the
// background. Each becomes a task. Answer: [DoneTo].
type BackgroundCommands struct{ Task TaskID } // zero: the root

// ReleasedCommands names the run and the message whose commands must move to the background.
type ReleasedCommands struct {
	Session SessionID
	Task    TaskID
	Epoch   int64
	Message int
}

const (
	// shellGrace is how much longer than its timeout a command may be RUNNING: its worker enforces
	// the timeout, and knows the last output.
	shellGrace = 10 * time.Second
	// maxShellOutput limits the stored output of a running command, in bytes.
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

// launch makes the command of a call a running task.
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

// label describes a command: its description, or else its command line.
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
	// Check the size first: judging takes longer the longer the command is.
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

// appendOutput makes a command's output its answer, however the command ends.
func (d *decision) appendOutput(t *Task) {
	text := excerpt.Tail(t.Output, d.session().Limits.PartBytes)
	if text == "" {
		text = noOutput
	}
	t.Output = ""
	t.Answer = d.append(t, &Message{Role: RoleAssistant, Blocks: []Block{Text{Text: text}}}).Ordinal
}

// setOutput records the last output of a command.
func (t *Task) setOutput(output string) {
	t.Output = excerpt.Tail(output, maxShellOutput)
	lines := strings.Split(strings.TrimSpace(t.Output), "\n")
	t.addActivity(excerpt.Head(lines[len(lines)-1], maxActivity))
}

func (c BackgroundCommands) needs(n *needs) { n.openCalls(n.task(n.view.session.OrRoot(c.Task))) }

func (c BackgroundCommands) decide(d *decision) (Answer, error) {
	t, err := d.task(d.session().OrRoot(c.Task))
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
	if err := d.mayReleaseCommands(t); err != nil {
		return nil, err
	}
	d.releaseCommands(t)
	return DoneTo{t.ID}, nil
}

// mayReleaseCommands refuses to move the commands of a run to the background if no call may be
// running one, or if the caps leave no room for the tasks that they would become: a command that
// cannot become one is ended.
func (d *decision) mayReleaseCommands(t *Task) error {
	running, queued, limits := 0, 0, d.session().Limits
	if t.State == StateRunning && t.OpenCalls > 0 {
		for _, c := range d.view.openCalls(t) {
			switch c.State {
			case CallStarted:
				running++
			case CallOpen: // it may be a command that has not started yet, and will move too
				queued++
			}
		}
	}
	switch all := running + queued; {
	case running == 0:
		return ErrNothingRuns
	case t.Children+all > limits.Width:
		return ErrTooWide.With("%d children of one task", limits.Width)
	case d.session().Total+all > limits.Total:
		return ErrTooMany.With("%d tasks of one session", limits.Total)
	}
	return nil
}

// releaseCommands has the worker of a run move commands to the background.
func (d *decision) releaseCommands(t *Task) {
	t.Release = t.OpenMessage
	d.view.touchTask(t)
	d.view.changes.Released = append(d.view.changes.Released, ReleasedCommands{
		Session: t.Session, Task: t.ID, Epoch: t.Epoch, Message: t.Release,
	})
}

// stopTask ends a task and all tasks below it for a call, and closes the call with the task's state
// before that. The caller gets no other news of the end.
func (d *decision) stopTask(t *Task, call *Call, target *Task) {
	out := OutputOf(target)
	message := "It was " + out.Status + " and is ended, with all below it."
	if target.State.Terminal() {
		message = "It had ended before."
		if slices.ContainsFunc(d.view.descendants(target.ID), func(below *Task) bool { return below.State.Active() }) {
			message = "It had ended before; what still ran below it is ended."
		}
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
	d.withMuted([]*Task{t}, func() { d.cancel(target, ReasonCancelledByParent, "ended by a task above it") })
}

// stopped is the state of a task after stopTask.
func stopped(t *Task) State {
	if t.State.Terminal() {
		return t.State
	}
	return StateCancelled
}
