package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// marker is the first argument of a stage. The second is the name of the stage.
const marker = "coppice-sandbox-stage"

const (
	stageSupervise = "supervise"
	stageConfine   = "confine"
	stageHold      = "hold"
)

// init does the work of the stage in a stage of a command, and does not return then. Every command
// waits for this, so it does not wait for main: most packages of a program are initialised after
// this one, which imports little and whose path comes early.
func init() { //nolint:gochecknoinits // It has to run before the initialisation of other packages.
	if len(os.Args) != 3 || os.Args[1] != marker {
		return
	}
	// capabilities, Landlock rules and filters belong to a thread
	runtime.LockOSThread()
	stages := map[string]func() int{stageSupervise: supervise, stageConfine: confine, stageHold: hold}
	if run := stages[os.Args[2]]; run != nil {
		os.Exit(run())
	}
	fmt.Fprintln(os.Stderr, "this is a stage of a sandbox, and not to be called by hand")
	os.Exit(codeFailed)
}

// Exit codes of a stage.
const (
	codeFailed = 125 // it failed, and reported that on the status pipe
	codeKilled = 128 + int(unix.SIGKILL)
)

// spec is the configuration of the stages of a command.
type spec struct {
	Way      way
	Probe    bool // run no command; report whether the stages succeeded
	TryDir   bool // with Probe: fail unless the command could write to its directory
	Argv     []string
	Env      []string
	Home     string
	Network  bool
	Confined bool   // no new privileges, no capabilities
	Landlock bool   // by the paths in Trees
	Seccomp  bool   //
	Limited  bool   // by Limits
	Trees    []tree // the files that the command sees, in addition to the system's
	Limits   Limits
	Wrap     []string // command line of bubblewrap, before that of the stage
}

// dir returns the directory of the command.
func (s spec) dir() *tree {
	return &s.Trees[slices.IndexFunc(s.Trees, func(t tree) bool { return t.Writable })]
}

// File descriptors of a stage.
const (
	fileSpec = 3
	// Of supervise.
	fileLife        = 4 // closes when the command must end
	fileStatus      = 5
	fileTrees       = 6 // and following: mounts created by the worker
	fileInnerStatus = 4 // of confine
	fileInnerExe    = 5 // of confine in bubblewrap, which does not see the path of this binary
)

// way is how a command gets namespaces.
type way string

const (
	wayNone       way = ""
	wayNative     way = "native"
	wayBubblewrap way = "bubblewrap"
)

// writeSpec writes a spec to a file that only the stages can read.
func writeSpec(s spec) (*os.File, error) {
	text, err := json.Marshal(s.mapped(widened))
	if err != nil {
		return nil, fmt.Errorf("saying what to start: %w", err)
	}
	fd, err := unix.MemfdCreate("coppice-sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("saying what to start: %w", err)
	}
	f := os.NewFile(uintptr(fd), "spec")
	if _, err := f.Write(text); err != nil {
		return nil, errors.Join(fmt.Errorf("saying what to start: %w", err), f.Close())
	}
	return f, nil
}

// readSpec reads the spec. Each stage can call it, although the stages share the file offset.
func readSpec() (spec, error) {
	var s spec
	f := os.NewFile(fileSpec, "spec")
	err := json.NewDecoder(io.NewSectionReader(f, 0, 1<<30)).Decode(&s)
	if err != nil {
		return s, fmt.Errorf("reading what to start: %w", err)
	}
	return s.mapped(narrowed), nil
}

// mapped returns the spec with all its texts mapped.
func (s spec) mapped(to func(string) string) spec {
	for _, list := range []*[]string{&s.Argv, &s.Env, &s.Wrap} {
		*list = slices.Clone(*list)
		for i, text := range *list {
			(*list)[i] = to(text)
		}
	}
	s.Home, s.Trees = to(s.Home), slices.Clone(s.Trees)
	for i := range s.Trees {
		s.Trees[i].At = to(s.Trees[i].At)
	}
	return s
}

// widened returns a text with a character for each byte. Paths and variables need not be UTF-8, and
// JSON keeps nothing else.
func widened(text string) string {
	wide := make([]rune, len(text))
	for i := range len(text) {
		wide[i] = rune(text[i])
	}
	return string(wide)
}

// narrowed undoes widened.
func narrowed(wide string) string {
	text := make([]byte, 0, len(wide))
	for _, r := range wide {
		text = append(text, byte(r))
	}
	return string(text)
}

// Messages on the status pipe. A text follows the latter two.
const (
	statusReady    = 'K' // the command is executed next
	statusFailed   = 'E'
	statusNotFound = 'N'
)

func report(status *os.File, err error) int {
	kind := byte(statusFailed)
	if errors.Is(err, exec.ErrNotFound) {
		kind = statusNotFound
	}
	// without a reader there is nothing else to do
	_, _ = status.Write(append([]byte{kind}, err.Error()...))
	return codeFailed
}

// maxStatus bounds the status of a stage.
const maxStatus = 64 << 10

// readStatus waits until the command has replaced its stage, or failed to.
func readStatus(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxStatus))
	if err != nil {
		return fmt.Errorf("waiting for the command: %w", err)
	}
	if len(text) > 0 && text[0] == statusReady {
		text = text[1:]
		if len(text) == 0 {
			return nil
		}
	}
	switch {
	case len(text) == 0:
		return errors.New("it ended before it could begin")
	case text[0] == statusNotFound:
		return fmt.Errorf("%w: %s", exec.ErrNotFound, valid(string(text[1:])))
	default:
		return errors.New(valid(string(text[1:])))
	}
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
