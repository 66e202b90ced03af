package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tree"
)

// Command is a command line that a call runs. A command that should become a task of its own is
// returned in a [Spawn]. The receiver must either call Take and then Run, or call Drop.
type Command struct {
	Line        string
	Description string
	Timeout     time.Duration
	Output      string // file of the workspace with the whole output
	ByUser      bool   // it started in the foreground, and a user moved it to the background

	sandbox         *sandbox.Sandbox
	network         bool
	secrets         *redact.Redactor
	workspace       *Workspace
	output          *capture
	backgroundSlots chan struct{} // shared by the worker's background commands
	holdsSlot       bool          // this command holds one of them
	taken           bool          // Take was called

	cancel    context.CancelCauseFunc // nil: not started
	killCause error                   // nil: it was not killed
	ended     chan struct{}
	err       error // how it ended
}

// CommandEnd is how a background command ended.
type CommandEnd struct {
	Output string      // what it printed, bounded
	Reason tree.Reason // unspecified: exit code 0
	Detail string
}

var (
	errTimeout     = errors.New("its time was up")
	errInterrupted = errors.New("its worker has stopped")
)

// setOutputFile directs output that is too large to hold in memory to a file.
func (c *Command) setOutputFile(label string) {
	c.Output = outputFile(label)
	c.output = &capture{
		half: (maxOutput - statusReserve) / 2, name: c.Output,
		open: func() (io.WriteCloser, error) { return c.workspace.createOutput(c.Output) },
	}
}

// start starts the command. It runs until it ends or is killed, independently of the call.
func (c *Command) start() error {
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(context.Background())
	c.ended = make(chan struct{})
	printed := &redactingWriter{to: c.output, secrets: c.secrets, stream: c.secrets.Stream()}
	process, err := c.sandbox.Start(ctx, sandbox.Command{
		Argv: shellArgs(c.Line), Dir: c.workspace.Resolved(), Writable: c.workspace.ExtraDirs(), Network: c.network,
		Stdout: printed, Stderr: printed,
	})
	if err != nil {
		c.cancel(err)
		return err
	}
	go func() {
		defer close(c.ended)
		c.err = errors.Join(process.Wait(), printed.close())
	}()
	return nil
}

// maxArgument is how many bytes of an argument Linux takes.
const maxArgument = 128<<10 - 1

// shellArgs returns the arguments to run a command line with bash. A line that is too long for one
// argument is put together from several by bash, which then runs it without any.
func shellArgs(line string) []string {
	if len(line) <= maxArgument {
		return []string{"bash", "-c", line}
	}
	script, argv := "eval \"set --\n", []string{"bash", "-c", "", "bash"}
	for n := 1; line != ""; n++ {
		part := excerpt.Head(line, maxArgument)
		script += fmt.Sprintf("${%d}", n)
		argv, line = append(argv, part), line[len(part):]
	}
	argv[2] = script + "\""
	return argv
}

// kill kills the command with all its processes, and waits until none is left.
func (c *Command) kill(why error) {
	c.killCause = why
	c.cancel(why)
	<-c.ended
}

// acquireSlot takes a background slot, if one is free.
func (c *Command) acquireSlot() bool {
	select {
	case c.backgroundSlots <- struct{}{}:
		c.holdsSlot = true
	default:
	}
	return c.holdsSlot
}

func (c *Command) releaseSlot() {
	if c.holdsSlot {
		c.holdsSlot = false
		<-c.backgroundSlots
	}
}

// spawn hands the command over.
func (c *Command) spawn() Spawn {
	return Spawn{Background: true, Description: c.Description, Command: c}
}

// Take accepts responsibility for the command. From then on it needs only the directory of the
// workspace, and its whole output goes to its file.
func (c *Command) Take() {
	c.taken = true
	c.output.keepInFile()
}

// Drop ends a command that nobody has taken.
func (c *Command) Drop() {
	if c.taken {
		return
	}
	if c.cancel != nil {
		c.kill(errInterrupted)
	}
	c.releaseSlot()
}

// Run runs a taken command to its end, or kills it when ctx ends. onOutput receives the end of the
// output, at most once a second, whenever it has changed.
func (c *Command) Run(ctx context.Context, onOutput func(output string)) CommandEnd {
	defer c.releaseSlot()
	if c.cancel == nil {
		if err := c.start(); err != nil {
			return CommandEnd{Reason: tree.ReasonToolError, Detail: errorText(err)}
		}
	}
	timeout, tick := time.NewTimer(c.Timeout), time.NewTicker(progressInterval)
	defer timeout.Stop()
	defer tick.Stop()
	for seen := int64(0); ; {
		if printed := c.output.bytesPrinted(); printed > seen {
			seen = printed
			onOutput(c.output.tailText(maxProgressBytes))
		}
		select {
		case <-c.ended:
			return c.end()
		case <-timeout.C:
			c.kill(errTimeout)
			return c.end()
		case <-ctx.Done():
			c.kill(errInterrupted)
			return c.end()
		case <-tick.C:
		}
	}
}

// end returns how the command ended.
func (c *Command) end() CommandEnd {
	end := CommandEnd{Output: c.output.text()}
	switch {
	case c.err == nil:
	case errors.Is(c.killCause, errTimeout):
		end.Reason, end.Detail = tree.ReasonTimeout, fmt.Sprintf("killed after %s", c.Timeout)
	case errors.Is(c.killCause, errInterrupted):
		end.Reason, end.Detail = tree.ReasonInterrupted, "its worker has stopped"
	default:
		end.Reason, end.Detail = tree.ReasonToolError, c.status()
	}
	return end
}

// result is the result of a foreground command.
func (c *Command) result() Done {
	text := strings.TrimRight(c.output.text(), "\n")
	if text == "" {
		text = "[no output]"
	}
	switch {
	case c.err == nil:
		return Done{Text: text}
	case errors.Is(c.killCause, errTimeout):
		return Done{IsError: true, Text: fmt.Sprintf("%s\n[timeout: killed after %s, with all that it had started]", text, c.Timeout)}
	}
	return Done{IsError: true, Text: text + "\n[" + c.status() + "]"}
}

// signalExitBase plus the number of a signal is the exit code of a process that the signal killed.
const signalExitBase = 128

// status describes how a failed command ended.
func (c *Command) status() string {
	exit, exited := errors.AsType[*exec.ExitError](c.err)
	if !exited {
		return errorText(c.err)
	}
	code := exit.ExitCode()
	if name := unix.SignalName(syscall.Signal(code - signalExitBase)); name != "" {
		return fmt.Sprintf("exit code %d, as after %s", code, name)
	}
	return fmt.Sprintf("exit code %d", code)
}

// errorText formats an error for a model.
func errorText(err error) string { return failed(err).Text }
