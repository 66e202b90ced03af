package sandbox

import (
	"fmt"
	"os"
	"strconv"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// abiRefer is the first Landlock version that allows moving files between directories. An older
// one asked for that would restrict nothing at all.
const abiRefer = 2

// abiSockets is the first Landlock version that blocks connections to sockets at outside paths.
const abiSockets = 9

// landlock allows the process to read the system's files and to write the command's files.
func (s spec) landlock() error {
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("asking for its version: %w", err)
	}
	readable := append([]string{"/proc"}, systemPaths()...)
	var changed []string
	for _, t := range s.Trees {
		if t.Writable {
			changed = append(changed, t.procPath())
		} else {
			readable = append(readable, t.procPath())
		}
	}
	writable := landlock.RWDirs(changed...)
	scratch := landlock.RWDirs(s.scratch()...).IgnoreIfMissing()
	if abi >= abiRefer {
		writable, scratch = writable.WithRefer(), scratch.WithRefer()
	}
	files, dirs := splitFiles(readable)
	config := landlock.V11
	if s.Network {
		config.HandledAccessNet = 0
	}
	// A root and devices that are only the command's may be listed, and its terminals opened. Those of
	// the machine are the ones where people type.
	listed, terminals, terminalMaker := landlock.RODirs(), landlock.RWDirs(), landlock.RWFiles()
	if s.Way != wayNone {
		listed = landlock.PathAccess(llsyscall.AccessFSReadDir, "/")
		dirs = append(dirs, "/dev")
		terminals = landlock.RWDirs("/dev/pts").IgnoreIfMissing().WithIoctlDev()
		terminalMaker = landlock.RWFiles("/dev/pts/ptmx").IgnoreIfMissing().WithIoctlDev()
	}
	return config.BestEffort().Restrict(
		listed,
		landlock.RODirs(dirs...).IgnoreIfMissing(),
		landlock.ROFiles(files...).IgnoreIfMissing(),
		landlock.RWFiles(devicePaths...).IgnoreIfMissing().WithIoctlDev(),
		terminals, terminalMaker, writable, scratch,
	)
}

// landlockSockets reports whether Landlock blocks connections to sockets at outside paths.
func (s spec) landlockSockets() bool {
	abi, err := llsyscall.LandlockGetABIVersion()
	return s.Landlock && err == nil && abi >= abiSockets
}

// splitFiles separates files from directories, which have different access rights.
func splitFiles(paths []string) (files, dirs []string) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			files = append(files, path)
		} else {
			dirs = append(dirs, path)
		}
	}
	return files, dirs
}

// scratch returns the directories that exist only for the command.
func (s spec) scratch() []string {
	if s.Way == wayNone {
		return []string{s.Home}
	}
	return []string{"/tmp", "/dev/shm"}
}

func landlockDetail() string {
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return ""
	}
	return "ABI " + strconv.Itoa(abi)
}
