// Package process runs programs for measurements, each with its own log, and measures their
// cost from outside.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a started program with all its descendants.
type Process struct {
	Name string
	Log  string // log file
	// Started is when it was started.
	Started time.Time

	cmd           *exec.Cmd
	stopRequested bool // a stop was requested
	done          chan struct{}
	err           error // of Wait; valid after done
}

// Start starts a program in a directory, as another user if as is not nil. Its output goes to a
// file in the directory.
func Start(name, program string, args []string, dir string, as *syscall.Credential) (*Process, error) {
	p := &Process{Name: name, Log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	p.Started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill kills the process (SIGKILL) and waits for it.
func (p *Process) Kill() error { return p.End(syscall.SIGKILL) }

// Stop stops the process (SIGTERM), waits for it, and fails if it reports an error.
func (p *Process) Stop() error {
	before := p.stopRequested
	if err := p.End(syscall.SIGTERM); err != nil || before {
		return err
	}
	if p.err != nil {
		return fmt.Errorf("%s was asked to end: %w", p.Name, p.exitError())
	}
	return nil
}

// stopTimeout is how long a process may take to stop.
const stopTimeout = 30 * time.Second

// End sends a signal to the process and waits for it. A process that has ended before is an
// error.
func (p *Process) End(with syscall.Signal) error {
	if p.Ended() {
		if p.stopRequested {
			return nil
		}
		return fmt.Errorf("nobody has ended %s: %w", p.Name, p.exitError())
	}
	p.stopRequested = true
	if err := p.cmd.Process.Signal(with); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("killing %s: %w", p.Name, err)
		}
		<-p.done
		return fmt.Errorf("%s did not end within %s of %s", p.Name, stopTimeout, with)
	}
	return nil
}

// exitError returns how the process has ended, with the end of its log.
func (p *Process) exitError() error {
	return fmt.Errorf("%s; %s", p.cmd.ProcessState, lastWords(p.Log))
}

// serveTimeout is how long a process may take until it serves.
const serveTimeout = 60 * time.Second

// Await repeats ask until it succeeds, the process has ended, or serveTimeout has passed.
func (p *Process) Await(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w", p.Name, p.exitError())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", p.Name, err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Listens fails if nothing accepts connections at the address.
func Listens(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// lastWords returns the end of a log.
func lastWords(file string) string {
	const most = 2000
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
