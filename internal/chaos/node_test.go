//go:build chaos

package chaos_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// start starts the process. If it ends before it has got anywhere, because what
// it needs is broken just then, it is started again, as whoever runs it would.
func (n *node) start() error { return n.startAfter(nil) }

// startAfter starts the process in place of one that ended by itself, unless
// somebody else has decided meanwhile.
func (n *node) startAfter(last *exec.Cmd) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last != nil && (n.cmd != last || !n.wanted) {
		return nil
	}
	out, err := os.OpenFile(n.errors, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	before, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	cmd, ended := exec.Command(n.program, n.args...), make(chan struct{})
	cmd.Stderr = out
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		return fmt.Errorf("starting %s: %w", n.name, err)
	}
	n.cmd, n.ended, n.wanted = cmd, ended, true
	go func() {
		err := cmd.Wait()
		close(ended)
		n.again(cmd, err, before)
	}()
	return nil
}

// again starts a process again if it ended by itself. One that had served already
// had no reason to.
func (n *node) again(last *exec.Cmd, why error, before int64) {
	n.mu.Lock()
	wanted := n.wanted && n.cmd == last
	n.mu.Unlock()
	if !wanted {
		return
	}
	said, err := os.ReadFile(n.errors)
	if err != nil || bytes.Contains(said[before:], []byte(`"msg":"serving"`)) {
		n.died(fmt.Sprintf("%s ended by itself: %v: %s", n.name, errors.Join(why, err), lastWords(said)))
	}
	time.AfterFunc(restartAfter, func() {
		if err := n.startAfter(last); err != nil {
			n.died(err.Error())
		}
	})
}

// restartAfter is how long nobody starts a process again that has ended by itself.
const restartAfter = 100 * time.Millisecond

// lastWords are the last lines that a process said.
func lastWords(said []byte) string {
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
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s to %s: %w", s, n.name, err)
	}
	return nil // or it has ended by itself just now, and is about to be started again
}

// process is the one that was started last; ended is closed when it has ended.
func (n *node) process() (pid int, ended <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd.Process.Pid, n.ended
}

// isWorker reports whether a worker's id is that of the process that was started last.
func (n *node) isWorker(id string) bool {
	pid, _ := n.process()
	return isOf(id, pid)
}

// isOf reports whether a worker's id is that of a process.
func isOf(worker string, pid int) bool { return strings.Contains(worker, fmt.Sprintf("-%d-", pid)) }

// hasEnded is closed when the process that was started last has ended.
func (n *node) hasEnded() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// kill ends the process as a crash would.
func (n *node) kill() error {
	err := n.signal(syscall.SIGKILL)
	<-n.hasEnded()
	return err
}

// abortsWithin is more than enough to write down what some thousand goroutines were doing.
const abortsWithin = 10 * time.Second

// stop asks the process to end and says how long it took. One that does not end is aborted, and writes
// down what its goroutines were doing.
func (n *node) stop(most time.Duration) (time.Duration, error) {
	began := time.Now()
	ended, err := n.ends(syscall.SIGTERM, most)
	if ended || err != nil {
		return time.Since(began), err
	}
	lasted := fmt.Errorf("%s was asked to stop and had not after %s; %s says where it was", n.name, most, n.errors)
	if ended, err = n.ends(syscall.SIGQUIT, abortsWithin); !ended {
		err = errors.Join(err, n.kill())
	}
	return 0, errors.Join(lasted, err)
}

// ends signals the process and reports whether it ends in time.
func (n *node) ends(s syscall.Signal, most time.Duration) (bool, error) {
	if err := n.signal(s); err != nil {
		return false, err
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-n.hasEnded():
		return true, nil
	case <-timer.C:
		return false, nil
	}
}
