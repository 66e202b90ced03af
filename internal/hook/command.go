package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// blockingExit is the exit code with which a stop hook blocks.
const blockingExit = 2

// outputGrace is how long output is read after the command has exited, when only processes that
// it left behind could still write.
const outputGrace = 300 * time.Millisecond

// command runs a program in its own process group. When it has exited, all processes of the
// group are killed.
func (h *Hooks) command(ctx context.Context, s *Spec, in *input, body []byte) result {
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...) //nolint:gosec // it is what the operator has configured
	dir, leave, err := in.enter()
	if err != nil {
		return failedResult("opening the workspace: %v", err)
	}
	defer leave()
	cmd.Dir, cmd.Env = dir, h.environment(in)
	cmd.Stdin = bytes.NewReader(body)
	out, errs := h.newOutput(), h.newOutput()
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = outputGrace
	if err := cmd.Start(); err != nil {
		return notStarted(err)
	}
	err = cmd.Wait()
	if killed := killGroup(cmd); killed != nil && err == nil {
		err = killed
	}
	return resultOf(in.event, cmd, err, out.end(), errs.end())
}

// enter returns a path to the workspace that is valid until leave is called. On Linux it leads
// to the opened directory, even if that has been renamed.
func (in *input) enter() (path string, leave func(), _ error) {
	if in.open == nil || runtime.GOOS != "linux" {
		return in.Dir, func() {}, nil
	}
	dir, err := in.open()
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), func() { dir.Close() }, nil
}

// killGroup kills the process group of a command. An empty group is not an error.
func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err == nil || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return fmt.Errorf("killing the hook's processes: %w", err)
}

func notStarted(err error) result {
	r := failedResult("%v", err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		r.outcome = tree.HookMissing
	}
	return r
}

// resultOf returns the result of a command that has exited. Two errors are ignored: output that
// was still held open, and input that the command did not read.
func resultOf(event tree.HookEvent, cmd *exec.Cmd, err error, out, errs string) result {
	state := cmd.ProcessState
	var r result
	switch {
	case state == nil:
		return failedResult("%v", err)
	case state.Success():
		r = passedResult(event, out)
	case state.ExitCode() == blockingExit && event == tree.SubagentStop:
		r = blockedResult(errs)
	default:
		r = failedWithOutput(state.String(), errs)
	}
	r.exitCode = state.ExitCode()
	return r
}

// inheritedVars are the variables that a command inherits from the worker. None of them should
// contain a key.
var inheritedVars = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM"}

// environment returns the environment of a command.
func (h *Hooks) environment(in *input) []string {
	var env []string
	for _, entry := range h.Environ {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(inheritedVars, name) || strings.HasPrefix(name, "LC_") {
			env = append(env, entry)
		}
	}
	return append(env,
		"COPPICE_HOOK_EVENT="+in.Event, "COPPICE_SESSION_ID="+in.Session,
		"COPPICE_TASK_ID="+in.Task, "COPPICE_AGENT="+in.Agent)
}
