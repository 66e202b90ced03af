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

	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tree"
)

// Command is a command line that a call runs. One that is to be a task of its own
// comes out of the call in a [Spawn]: whoever gets it takes it and carries it to its
// end, or drops it.
type Command struct {
	Line        string
	Description string
	Timeout     time.Duration
	Output      string // the file of the workspace that has all that it prints
	ByUser      bool   // it was begun in the foreground

	sandbox         *sandbox.Sandbox
	network         bool
	secrets         *redact.Redactor
	workspace       *Workspace
	output          *capture
	backgroundSlots chan struct{} // of the worker's commands in the background
	holdsSlot       bool          // this one has its place there
	taken           bool          // somebody carries it

	cancel    context.CancelCauseFunc // nil: it has not been started
	killCause error                   // it was killed; nil: it was not
	ended     chan struct{}
	err       error // how it has ended
}

// CommandEnd is how a command has ended that was a task of its own.
type CommandEnd struct {
	Output string      // what it has printed, bounded
	Reason tree.Reason // unspecified: with exit code 0
	Detail string
}

var (
	errTimeout     = errors.New("its time was up")
	errInterrupted = errors.New("its worker has stopped")
)

// captureAs has the output go to the file of a label, once it is too much to hold.
func (c *Command) setOutputFile(label string) {
	c.Output = outputFile(label)
	c.output = &capture{
		half: (maxOutput - statusReserve) / 2, name: c.Output,
		open: func() (io.WriteCloser, error) { return c.workspace.createOutput(c.Output) },
	}
}

// start begins the command. It lives until it has ended or is killed, whatever becomes
// of the call.
func (c *Command) start() error {
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(context.Background())
	c.ended = make(chan struct{})
	printed := &redactingWriter{to: c.output, secrets: c.secrets, stream: c.secrets.Stream()}
	process, err := c.sandbox.Start(ctx, sandbox.Command{
		Argv: []string{"bash", "-c", c.Line}, Dir: c.workspace.Resolved(), Writable: c.workspace.ExtraDirs(), Network: c.network,
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

// kill ends the command with all that it has started, and waits until nothing is left.
func (c *Command) kill(why error) {
	c.killCause = why
	c.cancel(why)
	<-c.ended
}

// findRoom takes a place among the commands in the background, if there is one.
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

// spawn gives the command away.
func (c *Command) spawn() Spawn {
	return Spawn{Background: true, Description: c.Description, Command: c}
}

// Take says that somebody is going to carry the command. From then on it needs the
// workspace no more but as a directory, and all that it prints is in its file.
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

// Carry runs a command that was taken to its end, or kills it when ctx ends. told gets the end of
// what it has printed, at most once a second, whenever that has changed.
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

// end says how the command has ended.
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

// result is what the model is told of a command in the foreground.
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

// bySignal is what is added to a signal's number in the exit code of what it has ended.
const signalExitBase = 128

// status says how a command has ended that has not ended well.
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

// errorText is an error for a model.
func errorText(err error) string { return failed(err).Text }
