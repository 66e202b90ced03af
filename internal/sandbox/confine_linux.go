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

// confine restricts its own process, and then executes the command.
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
	// The command gets only the first three files.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing files: %w", err)
	}
	if _, err := status.Write([]byte{statusReady}); err != nil {
		return fmt.Errorf("saying that the command begins: %w", err)
	}
	// These limits come last. They apply to everything before the command as well, and the Go
	// runtime may need more than a command is allowed.
	if err := s.limit(s.sizeLimits()); err != nil || s.Probe {
		return err
	}
	if err := syscall.Exec(program, s.Argv, s.Env); err != nil {
		return fmt.Errorf("%s: %w", s.Argv[0], err)
	}
	return nil
}

// enter opens what the worker has opened, and changes to the command's directory.
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

// tryDir reports an error if a command could not write to its directory.
func (s spec) tryDir() error {
	if !s.TryDir {
		return nil
	}
	if err := unix.Access(".", unix.W_OK); err != nil {
		return fmt.Errorf("writing to the workspace: %w", err)
	}
	return nil
}

// restrict sets the restrictions that survive the execution of another program. The seccomp
// filter comes last, because the others make calls that it refuses.
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
		if err := setFilter(s.filterOptions()); err != nil {
			return fmt.Errorf("setting %s: %w", LayerSeccomp, err)
		}
	}
	return nil
}

// filterOptions says what the seccomp filter refuses besides what it always refuses.
type filterOptions struct {
	network      bool   // sockets of the network are permitted
	localSockets bool   // sockets that can be connected to a path are permitted
	otherLimits  bool   // changing the limits of other processes is permitted
	modes        uint32 // modes with one of these bits are refused
}

// filterOptions returns the options for this command. Without namespaces it could reach all local
// services and processes of its user.
func (s spec) filterOptions() filterOptions {
	apart := s.Way != wayNone
	return filterOptions{network: s.Network, localSockets: apart || s.landlockSockets(), otherLimits: apart, modes: s.refusedModes()}
}

// refusedModes returns the mode bits that are refused: setuid and setgid. In directories that
// pass on their group, programs set setgid with each change of a mode, so it is allowed there.
func (s spec) refusedModes() uint32 {
	if slices.ContainsFunc(s.Trees, func(t tree) bool { return t.Writable && t.Group }) {
		return unix.S_ISUID
	}
	return unix.S_ISUID | unix.S_ISGID
}

// rlimit is one resource limit.
type rlimit struct {
	which int
	value uint64
}

// countLimits returns the limits that a stage stays well below.
func (s spec) countLimits() []rlimit {
	return []rlimit{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NOFILE, s.Limits.OpenFiles},
		{unix.RLIMIT_FSIZE, s.Limits.FileBytes},
		{unix.RLIMIT_CPU, uint64(max(1, s.Limits.CPU/time.Second))},
	}
}

// sizeLimits returns the limits that a stage itself may exceed.
func (s spec) sizeLimits() []rlimit {
	bounds := []rlimit{{unix.RLIMIT_DATA, s.Limits.Memory}, {unix.RLIMIT_AS, s.Limits.AddressSpace}}
	if s.Way == wayNone {
		// without a user namespace it would count all processes of the user
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

// dropCapabilities permanently drops all capabilities of this thread.
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
		// The loop ends at the first number that the kernel does not know.
		for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) == nil; c++ {
		}
	}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

// lookPath finds a program like a shell with the command's environment.
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
