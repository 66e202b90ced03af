package sandbox

import (
	"fmt"
	"os"
	"strconv"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// abiRefer is the version of Landlock since which files may be moved between
// directories; asked for it, an older one would do nothing at all.
const abiRefer = 2

// landlock lets the process read what is the system's and write what is the
// command's.
func (s spec) landlock() error {
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("asking for its version: %w", err)
	}
	readable := append([]string{"/proc", "/dev"}, systemPaths()...)
	var changed []string
	for _, t := range s.Trees {
		if t.Writable {
			changed = append(changed, t.procPath())
		} else {
			readable = append(readable, t.procPath())
		}
	}
	writable := landlock.RWDirs(changed...)
	devices := landlock.RWDirs("/dev/pts").IgnoreIfMissing().WithIoctlDev()
	scratch := landlock.RWDirs(s.scratch()...).IgnoreIfMissing()
	if abi >= abiRefer {
		writable, scratch = writable.WithRefer(), scratch.WithRefer()
	}
	files, dirs := splitFiles(readable)
	config := landlock.V11
	if s.Network {
		config.HandledAccessNet = 0
	}
	// Where the root holds nothing but what the command may see, it may list it.
	listed := landlock.RODirs()
	if s.Way != wayNone {
		listed = landlock.PathAccess(llsyscall.AccessFSReadDir, "/")
	}
	return config.BestEffort().Restrict(
		listed,
		landlock.RODirs(dirs...).IgnoreIfMissing(),
		landlock.ROFiles(files...).IgnoreIfMissing(),
		landlock.RWFiles(devicePaths...).IgnoreIfMissing().WithIoctlDev(),
		landlock.RWFiles("/dev/pts/ptmx").IgnoreIfMissing().WithIoctlDev(),
		devices, writable, scratch,
	)
}

// splitFiles tells files from directories, which have rights of other kinds.
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

// scratch are directories that are there for the command alone.
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
