package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
	"unicode"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/sandbox"
)

const (
	gitTimeout   = 5 * time.Minute
	maxGitOutput = 64 << 10 // maximum output that is kept, in bytes
)

// git runs git on directories that agents can write to. Files there may name programs to run:
// hooks, filters, monitors, transport helpers. None of them is run.
type git struct{ sandbox *sandbox.Sandbox }

// gitCall is one invocation of git. It fails if the path of a directory that git may write to
// contains a symbolic link.
type gitCall struct {
	in       string   // working directory, which git may write to
	gitDir   string   // explicit, so git never searches for it
	env      []string // in addition to isolatedEnv
	writable []string // further writable directories
	args     []string
	out      io.Writer // gets the output; nil: run returns it
	fatal    string    // a warning that is an error
}

// disabledConfig turns off the settings that make git run programs, as far as their names are
// known. Settings with arbitrary names, such as filters, are avoided by not reading the
// repository's configuration at all: see repository.runIsolated.
var disabledConfig = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
	"protocol.allow=never", "submodule.recurse=false", "gc.auto=0", "maintenance.auto=false",
	"safe.directory=*", // the owner does not matter, because nothing that the repository names is run
}

// isolatedEnv excludes the configuration of the system and of the user, and all transports.
var isolatedEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent",
	"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "GIT_OPTIONAL_LOCKS=0",
	"GIT_COMMITTER_NAME=coppice", "GIT_COMMITTER_EMAIL=coppice@localhost", "LC_ALL=C",
}

// run returns the output without the final newline. The error contains git's error output.
func (g git) run(ctx context.Context, c gitCall) (string, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return "", errors.New("there is no git on this worker")
	}
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	argv := []string{program, "--git-dir=" + c.gitDir}
	for _, setting := range disabledConfig {
		argv = append(argv, "-c", setting)
	}
	var said, complaint cappedBuffer
	var out io.Writer = &said
	if c.out != nil {
		out = c.out
	}
	process, err := g.sandbox.Start(ctx, sandbox.Command{
		Argv: append(argv, c.args...), Dir: c.in, Writable: c.writable,
		Env: append(append([]string{}, isolatedEnv...), c.env...), Stdout: out, Stderr: &complaint,
	})
	if err != nil {
		return "", fmt.Errorf("git: %w", err)
	}
	err = process.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if err == nil && c.fatal != "" && strings.Contains(complaint.buf.String(), c.fatal) {
		err = errors.New("incomplete")
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", c.args[0], err, complaint.line())
	}
	return strings.TrimSuffix(said.buf.String(), "\n"), nil
}

// cappedBuffer keeps the start of what is written.
type cappedBuffer struct{ buf bytes.Buffer }

// Write never fails.
func (e *cappedBuffer) Write(p []byte) (int, error) {
	e.buf.Write(p[:min(len(p), max(0, maxGitOutput-e.buf.Len()))])
	return len(p), nil
}

// line returns the text on one line, without control characters and truncated.
func (e *cappedBuffer) line() string {
	const limit = 500
	text := strings.ToValidUTF8(e.buf.String(), "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return excerpt.Short(strings.Join(strings.Fields(text), " "), limit)
}
