// Package sandbox runs commands that a model has chosen. It confines them: they cannot access
// files outside of the workspace, the worker's secrets or the network, and they do not outlive
// the call that started them.
//
// A command is started in stages. A stage is this binary started again, in which this package
// runs the stage when it is initialised:
//
//	worker ── supervise ─────────────── confine ── command     (namespaces: native, or none)
//	worker ── supervise ── bubblewrap ── confine ── command
//
// supervise (supervise_linux.go) outlives the command. It is process 1 of the namespaces, or a
// subreaper. It kills what is left when the command ends or when the pipe from the worker
// closes. confine (confine_linux.go) applies limits, Landlock and seccomp to itself, and then
// executes the command.
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

// Sandbox starts confined commands. It is safe for concurrent use.
type Sandbox struct {
	environ  []string
	readable []string
	limits   Limits
	mode     Mode
	layers   []Layer
	way      way
	wrap     []string // bubblewrap, with options that not all versions support
	owners   owners
	log      *slog.Logger
}

// Config says how to confine commands.
type Config struct {
	// Mode says what an unavailable layer means; empty: [DefaultMode].
	Mode Mode
	// Environ is the environment of commands, as KEY=VALUE. nil: what [Environ] returns for
	// this process.
	Environ []string
	// Readable are directories and files that commands may read, in addition to those of the
	// system.
	Readable []string
	// Limits of a command. A zero field means its default.
	Limits Limits
	// Workspace is a directory of later commands. New fails if a command could not work there.
	// Optional.
	Workspace string
	Logger    *slog.Logger // optional

	ways []way // replaces the available ways to namespaces
}

// New creates a sandbox. It tests each layer. With [Required] it fails if one is unavailable,
// and names it.
func New(c Config) (*Sandbox, error) {
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

// Command is a command to run. The paths of its directories are absolute, and symbolic links on
// them are not followed, because other commands can create links wherever they may write. To
// follow links that a person has created, resolve them once, before any command runs.
type Command struct {
	Argv     []string
	Dir      string   // working directory; writable
	Writable []string // further writable directories
	Env      []string // KEY=VALUE, in addition to the common environment
	Network  bool     // network access is allowed
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
}

var errRoot = errors.New("the root of the file system can't be what a command may change")

// checked returns the command with cleaned paths.
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

// realPath resolves symbolic links.
func realPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not an absolute path", path)
	}
	return filepath.EvalSymlinks(path)
}

// Process is a running command with all its child processes.
type Process struct {
	cmd     *exec.Cmd
	kill    func() error // kills the command and its children; may be called repeatedly
	release func()       // releases other resources
	copied  func() error // waits until its output has been written; it may come through pipes of our own
}

// Start starts a command. The command and all its children are killed when ctx ends, and when
// this process ends in any way. The error is [exec.ErrNotFound] if the program does not exist.
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

// Wait waits until the command has ended and no child is left. The error is an [exec.ExitError]
// for an exit code other than 0; after a signal, the code is 128 plus the number of the signal.
// Wait must be called exactly once.
func (p *Process) Wait() error {
	err := errors.Join(p.cmd.Wait(), p.kill(), p.copied())
	p.release() // its error says nothing about the command
	return err
}

// Kill kills the command and all its children. Wait must still be called.
func (p *Process) Kill() error { return p.kill() }

// Layers returns all layers, with their state.
func (s *Sandbox) Layers() []Layer { return s.layers }

// Mode returns the configured mode.
func (s *Sandbox) Mode() Mode { return s.mode }

// Missing returns the layers that are not on.
func (s *Sandbox) Missing() []Layer {
	var missing []Layer
	for _, l := range s.layers {
		if !l.On {
			missing = append(missing, l)
		}
	}
	return missing
}

// String describes the state of the layers on one line.
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

// once returns a function that calls f only the first time.
func once(f func() error) func() error { return sync.OnceValue(f) }
