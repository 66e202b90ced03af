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
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// marker is the first argument of a stage; the second one names it.
const marker = "coppice-sandbox-stage"

const (
	stageSupervise = "supervise"
	stageConfine   = "confine"
	stageHold      = "hold"
)

// initCalled says that main called Init. A program that doesn't would run itself from
// the start where a stage should run, and that for each command.
var initCalled atomic.Bool

// Init has to be the first thing that the main of a program with a Sandbox calls, in
// tests TestMain. If the process is a stage of a command it does that stage's work
// and does not return.
func Init() {
	initCalled.Store(true)
	if len(os.Args) != 3 || os.Args[1] != marker {
		return
	}
	// Capabilities, limits of Landlock and filters belong to a thread.
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
	codeFailed = 125 // it could not do its work, and said so on the pipe of its status
	codeKilled = 128 + int(unix.SIGKILL)
)

// spec is what the worker tells the stages of a command.
type spec struct {
	Way      way
	Probe    bool // become no command, and say whether the stages did their work
	TryDir   bool // with Probe: the directory has to be one that the command can write to
	Argv     []string
	Env      []string
	Home     string
	Network  bool
	Confined bool   // no new privileges, no capabilities
	Landlock bool   // with Trees
	Seccomp  bool   //
	Limited  bool   // by Limits
	Trees    []tree // what the command sees beside what is the system's
	Limits   Limits
	Wrap     []string // how bubblewrap is called, up to the stage that it starts
}

// dir is the directory of the command.
func (s spec) dir() *tree {
	return &s.Trees[slices.IndexFunc(s.Trees, func(t tree) bool { return t.Writable })]
}

// The files of a stage, by number.
const (
	fileSpec = 3
	// Of supervise.
	fileLife        = 4 // closes when the command has to end
	fileStatus      = 5
	fileTrees       = 6 // and further: the mounts that the worker made
	fileInnerStatus = 4 // of confine
	fileInnerExe    = 5 // of confine below bubblewrap, which knows no path of this binary
)

// way is how a command gets namespaces.
type way string

const (
	wayNone       way = ""
	wayNative     way = "native"
	wayBubblewrap way = "bubblewrap"
)

// writeSpec puts a spec where stages can read it, and nobody else.
func writeSpec(s spec) (*os.File, error) {
	text, err := json.Marshal(s)
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

// readSpec may be called by one stage after the other: the place in the file is one
// that they share.
func readSpec() (spec, error) {
	var s spec
	f := os.NewFile(fileSpec, "spec")
	err := json.NewDecoder(io.NewSectionReader(f, 0, 1<<30)).Decode(&s)
	if err != nil {
		return s, fmt.Errorf("reading what to start: %w", err)
	}
	return s, nil
}

// What a stage says on the pipe of its status: one of these, with a text behind the
// latter two.
const (
	statusReady    = 'K' // the next thing is to become the command
	statusFailed   = 'E'
	statusNotFound = 'N'
)

func report(status *os.File, err error) int {
	kind := byte(statusFailed)
	if errors.Is(err, exec.ErrNotFound) {
		kind = statusNotFound
	}
	// If nobody reads it, nobody is left to be told.
	_, _ = status.Write(append([]byte{kind}, err.Error()...))
	return codeFailed
}

// maxStatus bounds what is read of a stage's status.
const maxStatus = 64 << 10

// readStatus waits until the command has taken the place of its stage, or failed to.
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
