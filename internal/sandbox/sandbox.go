// Package sandbox starts commands that a model has chosen and keeps them from what
// they have no business with: files outside the workspace, the worker's secrets,
// the network, and outliving the call that started them.
//
// A command passes through stages, which are this binary started anew with
// [Init] as the first thing that its main calls:
//
//	worker ── supervise ─────────────── confine ── command     (namespaces: native, or none)
//	worker ── supervise ── bubblewrap ── confine ── command
//
// supervise (supervise_linux.go) outlives the command: it is process 1 of the
// namespaces, or a subreaper, and ends all that is left when the command ends or
// when the pipe from the worker closes. confine (confine_linux.go) sets limits,
// Landlock and seccomp on itself and becomes the command.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Sandbox starts confined commands. It is safe for use by many goroutines at once.
type Sandbox struct {
	environ  []string
	readable []string
	limits   Limits
	mode     Mode
	layers   []Layer
	way      way
	wrap     []string // bubblewrap, and options that not all of its versions know
	owners   owners
	log      *slog.Logger
}

// Config says how commands are confined.
type Config struct {
	// Mode says what a layer that is missing means; empty: [DefaultMode].
	Mode Mode
	// Environ is what a command gets of the worker's environment, as KEY=VALUE. nil:
	// what [Environ] takes of this process's.
	Environ []string
	// Readable are directories and files that commands may read beside the system's.
	Readable []string
	// Limits are those of a command; the zero value of each stands for its default.
	Limits Limits
	// Workspace is a directory that commands will work in; empty: none is known yet.
	// New fails if they could not.
	Workspace string
	Logger    *slog.Logger // nil: none

	ways []way // to namespaces, instead of those that the machine has
}

// New makes a sandbox. It tries out each layer; with [Required] it fails if one is
// missing, and names it. The process has to have called [Init].
func New(c Config) (*Sandbox, error) {
	if !initCalled.Load() {
		return nil, errors.New("make a sandbox: the program's main has to call sandbox.Init before anything else")
	}
	mode, err := ParseMode(string(c.Mode))
	if err != nil {
		return nil, err
	}
	if mode == "" {
		mode = DefaultMode(os.Getuid(), os.Getenv)
	}
	if c.Environ == nil {
		c.Environ = Environ(os.Environ(), nil)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sandbox{environ: c.Environ, limits: c.Limits.filled(), mode: mode, log: c.Logger}
	for _, path := range c.Readable {
		real, err := realPath(path)
		if err != nil {
			return nil, fmt.Errorf("make a sandbox: what commands may read: %w", err)
		}
		s.readable = append(s.readable, real)
	}
	if err := s.probe(c); err != nil {
		return nil, fmt.Errorf("make a sandbox: %w", err)
	}
	if missing := s.Missing(); mode == Required && len(missing) > 0 {
		return nil, missingError(missing)
	}
	return s, nil
}

// Command is a command to run. On the paths of its directories, which are absolute, no
// symbolic link is followed: other commands can put one wherever they may write. Who
// wants links followed that a person has made does so once, before any command runs.
type Command struct {
	Argv     []string
	Dir      string   // it may change what is below
	Writable []string // further directories that it may change
	Env      []string // KEY=VALUE, beside what every command gets
	Network  bool     // it may use the network
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
}

var errRoot = errors.New("the root of the file system can't be what a command may change")

// checked is the command with the paths of its directories in their shortest form.
func (c Command) checked() (Command, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return c, errors.New("there is none")
	}
	writable := append([]string{c.Dir}, c.Writable...)
	for i, path := range writable {
		if !filepath.IsAbs(path) {
			return c, fmt.Errorf("%q is not an absolute path", path)
		}
		if writable[i] = filepath.Clean(path); writable[i] == "/" {
			return c, errRoot
		}
	}
	c.Dir, c.Writable = writable[0], writable[1:]
	return c, nil
}

// realPath is a path without symbolic links.
func realPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not an absolute path", path)
	}
	return filepath.EvalSymlinks(path)
}

// Process is a command under way, with all that it has started.
type Process struct {
	cmd     *exec.Cmd
	kill    func() error // ends it with all that it has started; it may be called often
	release func()       // gives back what it took beside its processes
}

// Start starts a command. When ctx ends it is killed with all that it has started,
// and so it is when this process ends, in whatever way. The error is an
// [exec.ErrNotFound] if there is no such program.
func (s *Sandbox) Start(ctx context.Context, c Command) (*Process, error) {
	c, err := c.checked()
	if err != nil {
		return nil, fmt.Errorf("start a command: %w", err)
	}
	p, err := s.start(ctx, c, false)
	if err != nil {
		return nil, fmt.Errorf("start a command: %w", err)
	}
	return p, nil
}

// Wait waits until the command has ended and nothing that it started is left. The
// error is an [exec.ExitError] if it ended with another code than 0; the code of one
// that a signal ended is 128 and the signal's number. It is called once.
func (p *Process) Wait() error {
	err := errors.Join(p.cmd.Wait(), p.kill())
	p.release() // whether that works says nothing about the command
	return err
}

// Kill ends the command with all that it has started. Wait is still to be called.
func (p *Process) Kill() error { return p.kill() }

// Layers says which layers there are and whether they are on.
func (s *Sandbox) Layers() []Layer { return s.layers }

// Mode says what was asked for.
func (s *Sandbox) Mode() Mode { return s.mode }

// Missing are the layers that are not on.
func (s *Sandbox) Missing() []Layer {
	var missing []Layer
	for _, l := range s.layers {
		if !l.On {
			missing = append(missing, l)
		}
	}
	return missing
}

// String says in one line what is on and what is missing.
func (s *Sandbox) String() string {
	var on, off []string
	for _, l := range s.layers {
		if l.On {
			on = append(on, l.String())
		} else {
			off = append(off, l.String())
		}
	}
	text := string(s.mode) + ": on " + strings.Join(on, ", ")
	if len(off) > 0 {
		text += "; missing " + strings.Join(off, ", ")
	}
	return text
}

// once makes of a function one that does its work the first time only.
func once(f func() error) func() error { return sync.OnceValue(f) }
