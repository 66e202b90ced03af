package sandbox

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confine takes from itself what the command has no business with, and becomes the
// command.
func confine() int {
	status := os.NewFile(fileInnerStatus, "status")
	s, err := readSpec()
	if err == nil {
		err = s.become(status)
	}
	if err != nil {
		return report(status, err)
	}
	return 0
}

func (s spec) become(status *os.File) error {
	if err := s.enter(); err != nil {
		return err
	}
	program := ""
	if !s.Probe {
		var err error
		if program, err = lookPath(s.Argv[0], s.Env); err != nil {
			return err
		}
	} else if err := s.tryDir(); err != nil {
		return err
	}
	if err := s.restrict(); err != nil {
		return err
	}
	// Nothing that this process was given is the command's, but the first three.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing files: %w", err)
	}
	if _, err := status.Write([]byte{statusReady}); err != nil {
		return fmt.Errorf("saying that the command begins: %w", err)
	}
	// These are last: what runs until the command does, runs within them, and the Go
	// runtime may want more than a command is allowed.
	if err := s.limit(s.sizeLimits()); err != nil || s.Probe {
		return err
	}
	if err := syscall.Exec(program, s.Argv, s.Env); err != nil {
		return fmt.Errorf("%s: %w", s.Argv[0], err)
	}
	return nil
}

// enter opens what the worker has opened, and makes the command's directory the current
// one.
func (s spec) enter() error {
	for i := range s.Trees {
		if err := s.Trees[i].reopen(); err != nil {
			return err
		}
	}
	if err := unix.Fchdir(int(s.dir().file.Fd())); err != nil {
		return fmt.Errorf("entering the directory: %w", err)
	}
	return nil
}

// tryDir says whether a command could write to its directory.
func (s spec) tryDir() error {
	if !s.TryDir {
		return nil
	}
	if err := unix.Access(".", unix.W_OK); err != nil {
		return fmt.Errorf("writing to the workspace: %w", err)
	}
	return nil
}

// restrict sets what stays with the process when it becomes another program. The
// filter comes last, since the others make calls that it refuses.
func (s spec) restrict() error {
	if s.Confined {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("giving up new privileges: %w", err)
		}
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	if s.Landlock {
		if err := s.landlock(); err != nil {
			return fmt.Errorf("setting %s: %w", LayerLandlock, err)
		}
	}
	if err := s.limit(s.countLimits()); err != nil {
		return err
	}
	if s.Seccomp {
		if err := setFilter(s.Network, s.refusedModes()); err != nil {
			return fmt.Errorf("setting %s: %w", LayerSeccomp, err)
		}
	}
	return nil
}

// refusedModes are bits of modes that make a program run as its owner or its group,
// whoever starts it. Where a directory hands its group on, programs ask for the latter
// with each change of a mode, so there it is let through.
func (s spec) refusedModes() uint32 {
	if slices.ContainsFunc(s.Trees, func(t tree) bool { return t.Writable && t.Group }) {
		return unix.S_ISUID
	}
	return unix.S_ISUID | unix.S_ISGID
}

// rlimit is one limit of a process.
type rlimit struct {
	which int
	value uint64
}

// countLimits are limits that a stage keeps well below.
func (s spec) countLimits() []rlimit {
	return []rlimit{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NOFILE, s.Limits.OpenFiles},
		{unix.RLIMIT_FSIZE, s.Limits.FileBytes},
		{unix.RLIMIT_CPU, uint64(max(1, s.Limits.CPU/time.Second))},
	}
}

// sizeLimits are limits that a stage may be above of itself.
func (s spec) sizeLimits() []rlimit {
	bounds := []rlimit{{unix.RLIMIT_DATA, s.Limits.Memory}, {unix.RLIMIT_AS, s.Limits.AddressSpace}}
	if s.Way == wayNone {
		// Without a namespace of users it would count all processes of the user.
		return bounds
	}
	return append([]rlimit{{unix.RLIMIT_NPROC, s.Limits.Processes}}, bounds...)
}

func (s spec) limit(bounds []rlimit) error {
	if !s.Limited {
		return nil
	}
	for _, b := range bounds {
		var now unix.Rlimit
		if err := unix.Prlimit(0, b.which, nil, &now); err != nil {
			return fmt.Errorf("reading %s: %w", LayerLimits, err)
		}
		value := min(b.value, now.Max)
		if err := unix.Prlimit(0, b.which, &unix.Rlimit{Cur: value, Max: value}, nil); err != nil {
			return fmt.Errorf("setting %s: %w", LayerLimits, err)
		}
	}
	return nil
}

// dropCapabilities takes all capabilities from this thread, for good.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var now, none [2]unix.CapUserData
	if err := unix.Capget(&header, &now[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	if now[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		// The first number that the kernel doesn't know ends it.
		for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) == nil; c++ {
		}
	}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

// lookPath finds a program as a shell would with the command's environment.
func lookPath(name string, environ []string) (string, error) {
	if strings.Contains(name, "/") {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("%w: %w", exec.ErrNotFound, err)
		}
		return name, nil
	}
	for _, entry := range environ {
		path, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			full := filepath.Join(dir, name)
			if info, err := os.Stat(full); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return full, nil
			}
		}
	}
	return "", fmt.Errorf("%w: %q is not in PATH", exec.ErrNotFound, name)
}
