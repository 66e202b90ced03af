//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// closeTimeout is how long the pipes may stay open after a command has ended.
const closeTimeout = 2 * time.Second

type (
	way    string
	owners struct{}
)

func (s *Sandbox) probe(Config) error {
	if s.mode == Off {
		return nil
	}
	for _, name := range []string{LayerNamespaces, LayerLandlock, LayerSeccomp, LayerLimits} {
		s.layers = append(s.layers, Layer{Name: name, Detail: "there is none on " + runtime.GOOS})
	}
	return nil
}

// start only creates a process group for the command.
func (s *Sandbox) start(ctx context.Context, c Command, _ bool) (*Process, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, withSafeDirectory(c.Dir, mergeEnviron(s.environ, c.Env))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = closeTimeout
	kill := func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending a command: %w", err)
		}
		return nil
	}
	cmd.Cancel = kill
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Process{cmd: cmd, kill: kill, release: func() {}, copied: func() error { return nil }}, nil
}

// Hides returns false, because a command sees all files here.
func (s *Sandbox) Hides(string, Command) bool { return false }
