//go:build chaos

package chaos_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/internal/chaos"
)

// node is a process of the installation. Whoever breaks it holds it meanwhile.
type node struct {
	name    string
	program string
	args    []string
	errors  string // file of what it says
	died    func(string)

	held  sync.Mutex
	links []*chaos.Link // from it to others

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{}
	wanted bool              // it is expected to run
	killed map[int]time.Time // by process id, when it was told to end
}

// start starts the process.
func (n *node) start() error {
	out, err := os.OpenFile(n.errors, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(n.program, n.args...)
	cmd.Stderr = out
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		return fmt.Errorf("starting %s: %w", n.name, err)
	}
	ended := make(chan struct{})
	n.mu.Lock()
	n.cmd, n.ended, n.wanted = cmd, ended, true
	n.mu.Unlock()
	go func() {
		err := cmd.Wait()
		n.mu.Lock()
		wanted := n.wanted && n.cmd == cmd
		n.mu.Unlock()
		close(ended)
		if wanted {
			n.died(fmt.Sprintf("%s ended by itself: %v: %s", n.name, err, n.lastWords()))
		}
	}()
	return nil
}

// lastWords are the last lines that it said.
func (n *node) lastWords() string {
	said, err := os.ReadFile(n.errors)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

func (n *node) signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		n.wanted = false
		n.killed[n.cmd.Process.Pid] = time.Now()
	}
	return n.cmd.Process.Signal(s)
}

// kill ends the process as a crash would.
func (n *node) kill() error {
	if err := n.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", n.name, err)
	}
	<-n.ended
	return nil
}

// stop asks the process to end and says how long it took.
func (n *node) stop(most time.Duration) (time.Duration, error) {
	began := time.Now()
	if err := n.signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stopping %s: %w", n.name, err)
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-n.ended:
		return time.Since(began), nil
	case <-timer.C:
		return 0, errors.Join(fmt.Errorf("%s was asked to stop and had not after %s", n.name, most), n.kill())
	}
}
