// Package sandbox starts commands that a model has chosen and keeps them from what
// they have no business with: files outside the workspace, the worker's secrets,
// the network, and outliving the call that started them.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Sandbox starts confined commands. It is safe for use by many goroutines at once.
type Sandbox struct {
	environ []string
}

// Config says how commands are confined.
type Config struct {
	// Environ is what a command gets of the worker's environment, as KEY=VALUE.
	Environ []string
}

// New makes a sandbox.
func New(c Config) (*Sandbox, error) {
	return &Sandbox{environ: c.Environ}, nil
}

// Command is a command to run.
type Command struct {
	Argv     []string
	Dir      string   // absolute; it may change what is below
	Writable []string // further directories that it may change
	Env      []string // KEY=VALUE, beside what every command gets
	Network  bool     // it may use the network
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
}

// Process is a command under way, with all that it has started.
type Process struct {
	cmd *exec.Cmd
}

// closing is how long the pipes of a command that has ended may stay open.
const closing = 2 * time.Second

// Start starts a command. When ctx ends it is killed with all that it has started.
func (s *Sandbox) Start(ctx context.Context, c Command) (*Process, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("start a command: there is none")
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append(append([]string{}, s.environ...), c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = closing
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a command: %w", err)
	}
	return &Process{cmd: cmd}, nil
}

// Wait waits until the command has ended and nothing that it started is left. The
// error is an [exec.ExitError] if it ended with another code than 0 or by a signal.
// It is called once.
func (p *Process) Wait() error {
	err := p.cmd.Wait()
	if kill := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); kill != nil && !errors.Is(kill, syscall.ESRCH) {
		err = errors.Join(err, fmt.Errorf("ending what a command left: %w", kill))
	}
	return err
}
