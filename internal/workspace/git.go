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
	maxGitOutput = 64 << 10 // bytes that are kept of what it says
)

// git runs git on directories that agents can write to. What is in them may name
// programs to run: hooks, filters, monitors, helpers of transports. None of them runs.
type git struct{ sandbox *sandbox.Sandbox }

// gitCall is one run of git. If there is a symbolic link on the path of a directory
// that it may change, it does not run.
type gitCall struct {
	in       string   // the directory that it may change
	gitDir   string   // never looked for
	env      []string // beside what all have
	writable []string // further directories that it may change
	args     []string
	out      io.Writer // gets what it says; nil: it is given back
}

// disabledConfig switches off what a repository can have git run, as far as it can be named; what
// has names of its own, as filters have, is left out by not reading the repository's
// configuration at all: see repository.apart.
var disabledConfig = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
	"protocol.allow=never", "submodule.recurse=false", "gc.auto=0", "maintenance.auto=false",
	"safe.directory=*", // whose files they are says nothing: nothing that they name is run
}

// isolatedEnv keeps out the configuration of the machine and the user, and all transports.
var isolatedEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent",
	"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "GIT_OPTIONAL_LOCKS=0",
	"GIT_COMMITTER_NAME=coppice", "GIT_COMMITTER_EMAIL=coppice@localhost", "LC_ALL=C",
}

// run gives what git has said, without the line's end. The error says what it has
// complained of.
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
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", c.args[0], err, complaint.line())
	}
	return strings.TrimSuffix(said.buf.String(), "\n"), nil
}

// cappedBuffer keeps the start of what is written to it.
type cappedBuffer struct{ buf bytes.Buffer }

// Write never fails.
func (e *cappedBuffer) Write(p []byte) (int, error) {
	e.buf.Write(p[:min(len(p), max(0, maxGitOutput-e.buf.Len()))])
	return len(p), nil
}

// line is a text of others on one line, fit to be shown.
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
