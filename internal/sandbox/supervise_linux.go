package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervise prepares the namespaces and starts the next stage. It ends when that stage ends, or
// when the worker wants it. No process of the command is left then: if supervise is process 1
// of its namespace, the kernel kills the others with it. As a subreaper it inherits orphaned
// processes and kills them one by one.
func supervise() int {
	status := os.NewFile(fileStatus, "status")
	s, err := readSpec()
	if err != nil {
		return report(status, err)
	}
	// The memory of this process belongs to the worker, so /proc/1 is closed to the command.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return report(status, fmt.Errorf("closing the supervisor to the command: %w", err))
	}
	if s.Way == wayNative {
		err = buildRoot(s)
	} else {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err == nil && s.Way == wayNative {
		err = dropCapabilities()
	}
	if err != nil {
		return report(status, err)
	}
	main, err := startInner(s, status)
	if err != nil {
		return report(status, fmt.Errorf("starting the next stage: %w", err))
	}
	// A reader of the command's output must see its end when the command closes it.
	for _, standard := range []int{0, 1, 2} {
		if err := unix.Close(standard); err != nil {
			return codeFailed
		}
	}
	// The pipe reports the start of the command when all its writers are closed.
	if err := status.Close(); err != nil {
		return codeFailed
	}
	code := newReaper(main).run(s.Way == wayNative)
	if s.Way == wayNone {
		_ = RemoveDir(s.Home) // it may be gone already; the worker tries again and reports a failure
	}
	return code
}

// startInner starts the confine stage, directly or in bubblewrap.
func startInner(s spec, status *os.File) (pid int, err error) {
	files := []uintptr{0, 1, 2, fileSpec, status.Fd()}
	argv := []string{"/proc/self/exe", marker, stageConfine}
	if s.Way == wayBubblewrap {
		exe, err := os.Open("/proc/self/exe")
		if err != nil {
			return 0, err
		}
		defer exe.Close()
		files = append(files, exe.Fd())
		argv = append(append([]string{}, s.Wrap...), "/proc/self/fd/"+strconv.Itoa(fileInnerExe), marker, stageConfine)
	}
	return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: "/", Env: stageEnviron, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// reaper collects the processes of a command.
type reaper struct {
	main  int
	mu    sync.Mutex    // no child is collected while it is held, so pids stay valid
	ended chan int      // exit code of the main process
	none  chan struct{} // closed when no child is left
}

func newReaper(main int) *reaper {
	r := &reaper{main: main, ended: make(chan int, 1), none: make(chan struct{})}
	go r.collect()
	return r
}

// run waits until the command ends or the worker wants its end, and returns the exit code.
// Process 1 leaves the rest to the kernel.
func (r *reaper) run(first bool) int {
	lost := make(chan struct{})
	go func() {
		// Nothing is ever written: this returns when the worker closes its end.
		_, _ = io.Copy(io.Discard, os.NewFile(fileLife, "life"))
		close(lost)
	}()
	code := codeKilled
	select {
	case code = <-r.ended:
	case <-lost:
	}
	if !first {
		r.killAll()
	}
	return code
}

// collect waits for children until none is left.
func (r *reaper) collect() {
	defer close(r.none)
	for {
		if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil); err == unix.EINTR {
			continue
		} else if err != nil {
			return
		}
		var status unix.WaitStatus
		r.mu.Lock()
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		r.mu.Unlock()
		if err == nil && pid == r.main {
			r.ended <- exitCode(status)
		}
	}
}

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() { //nolint:misspell // It is the name of the method.
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// killPause is the pause between two scans for children. A child of a killed process becomes a
// child of this process only when the killed one is gone.
const killPause = time.Millisecond

// killAll kills children with their groups, and their children as this process inherits them, until
// none is left.
func (r *reaper) killAll() {
	for {
		r.mu.Lock()
		for _, c := range children() {
			// The child has not been collected, so its pid and its group are not reused. No process of
			// the group escapes by forking meanwhile. The next stage has a session of its own, so all
			// in a group belong to the command.
			if c.group > 1 && c.group != unix.Getpgrp() {
				_ = unix.Kill(-c.group, unix.SIGKILL)
			}
			_ = unix.Kill(c.pid, unix.SIGKILL) // it may have changed its group; whoever is left is found by the next scan
		}
		r.mu.Unlock()
		select {
		case <-r.none:
			return
		case <-time.After(killPause):
		}
	}
}

// child is a child process, with its process group.
type child struct{ pid, group int }

// children returns the processes whose parent is this one.
func children() []child {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []child
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it is gone
		}
		// The name, in parentheses, may contain anything. State, parent and group follow.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 3 || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		if group, err := strconv.Atoi(string(fields[2])); err == nil {
			found = append(found, child{pid, group})
		}
	}
	return found
}
