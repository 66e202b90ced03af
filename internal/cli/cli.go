// Package cli implements the commands of coppice, and draws trees of agents.
//
// A session is shown in three steps. A forest is built from events (forest.go). It is laid out in
// lines that fit (fold.go, draw.go). The lines are drawn on a terminal that is updated (live.go)
// or printed one after another (plain.go). The first two steps are pure.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/flags"
)

// Process is the part of the process that a command uses.
type Process struct {
	Args           []string // without the name of the program
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Interrupt ends the context of Main, and makes a further interrupt end the process at once.
	Interrupt func()
}

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the requested task failed or was cancelled
	exitUsage       = 2
	exitRefused     = 3 // a call was refused, or an internal error
	exitUnfinished  = 4 // wait timed out before the task ended, or an approval is open
	exitUnavailable = 5 // no orchestrator is reachable, or it cannot serve now: a retry may succeed
	exitInterrupted = 130
	exitBrokenPipe  = 141 // the reader of the output is gone: the code of a program that SIGPIPE has ended
)

// commands is the command line grammar.
type commands struct {
	JSON bool `name:"json" help:"Machine-readable output: one JSON object per line, in the form of the API."`

	Run   runCommand   `cmd:"" group:"Run trees" help:"Run a prompt and watch its tree of agents grow."`
	Dev   devCommand   `cmd:"" group:"Run trees" help:"Run an orchestrator and a worker in this process until it is interrupted."`
	Batch batchCommand `cmd:"" group:"Run trees" help:"Open a session for each line of a file, many at once, and print the answers as they arrive."`
	Drill drillCommand `cmd:"" group:"Run trees" help:"Inject faults into an installation at many steps of a tree, and compare how the trees end."`

	Sessions   sessionsCommand   `cmd:"" group:"Look at them" help:"List sessions, newest first."`
	Tree       treeCommand       `cmd:"" group:"Look at them" help:"Show the tree of a session as it is now."`
	Watch      watchCommand      `cmd:"" group:"Look at them" help:"Watch a session: first its past events, then new ones."`
	Wait       waitCommand       `cmd:"" group:"Look at them" help:"Wait until a task has ended and print its answer; report approvals that the session waits for."`
	Transcript transcriptCommand `cmd:"" group:"Look at them" help:"Show the conversation of a task."`

	Send       sendCommand       `cmd:"" group:"Steer them" help:"Send a message to a task of a session."`
	Spawn      spawnCommand      `cmd:"" group:"Steer them" help:"Start a sub-agent in a session."`
	Inbox      inboxCommand      `cmd:"" group:"Steer them" help:"Show the messages that wait for a task, or remove them."`
	Background backgroundCommand `cmd:"" group:"Steer them" help:"Move a task to the background, so that its parent continues."`
	Cancel     cancelCommand     `cmd:"" group:"Steer them" help:"Cancel a task and everything below it; default: the root's turn."`
	Approvals  approvalsCommand  `cmd:"" group:"Steer them" help:"List tool calls that wait for approval."`
	Approve    approveCommand    `cmd:"" group:"Steer them" help:"Allow a tool call that waits for approval."`
	Deny       denyCommand       `cmd:"" group:"Steer them" help:"Deny a tool call that waits for approval."`
	Budget     budgetCommand     `cmd:"" group:"Steer them" help:"Show the usage and the budget of a session, or change the budget. With a larger one, a root whose news waits for it continues at once."`

	Branch branchCommand `cmd:"" group:"Keep conversations" help:"Continue from a message of a task in a new branch."`
	Select selectCommand `cmd:"" group:"Keep conversations" help:"Choose the branch that messages go to."`
	Import importCommand `cmd:"" group:"Keep conversations" help:"Open a session that starts with an imported transcript."`
	Rename renameCommand `cmd:"" group:"Keep conversations" help:"Change the title of a session."`
	Close  closeCommand  `cmd:"" group:"Keep conversations" help:"Close a session permanently; it can still be read."`
	Delete deleteCommand `cmd:"" group:"Keep conversations" help:"Delete a session and all its data."`

	Agents     agentsCommand     `cmd:"" group:"Operate an installation" help:"List, show, put and delete agents."`
	Workers    workersCommand    `cmd:"" group:"Operate an installation" help:"List the connected workers, and drain them."`
	Doctor     doctorCommand     `cmd:"" group:"Operate an installation" help:"Check the sessions of the token's tenant against their invariants, and list violations."`
	Token      tokenCommand      `cmd:"" group:"Operate an installation" help:"Create a token for an orchestrator."`
	Workspaces workspacesCommand `cmd:"" group:"Operate an installation" help:"Clean up the workspaces of workers."`
	FakeLLM    fakeLLMCommand    `cmd:"" group:"Operate an installation" name:"fake-llm" help:"Serve fakes of the Anthropic and OpenAI APIs, optionally with faults."`
}

const about = `Runs trees of LLM agents.

SESSION can be "last" for the newest session. The last four or more characters of an id of a session or task are enough. Every command about a task of a session accepts --task ID.

Exit codes: 0 completed; 1 failed or cancelled; 2 wrong usage; 3 call refused, or internal error; 4 not ended in time (wait), or blocked by an approval with no terminal to ask at (run, watch); 5 orchestrator unreachable, or temporarily unable to serve; 130 interrupted; 141 output closed by its reader.`

// app is the state that all commands share.
type app struct {
	Process
	json  bool
	typed []flags.Typed // flags on the command line
	now   func() time.Time
}

// Main runs a command and returns its exit code. ctx ends when the process is interrupted.
func Main(ctx context.Context, p Process) int {
	if p.Getenv == nil {
		p.Getenv = os.Getenv
	}
	a := &app{Process: p, now: time.Now}
	err := a.main(ctx)
	var code exitCode
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case ctx.Err() != nil && cancelled(ctx, err):
		a.complain("interrupted")
		return exitInterrupted
	case errors.Is(err, syscall.EPIPE):
		return exitBrokenPipe // the reader of the output is gone
	}
	a.complain(err.Error())
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	case isTemporary(err):
		return exitUnavailable
	}
	return exitRefused
}

// cancelled reports whether an error only says that ctx has ended.
func cancelled(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)) || status.Code(err) == codes.Canceled
}

// complain prints an error or a warning on one line.
func (a *app) complain(text string) {
	a.warn(safeLine(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")))
}

// warn prints a line that is already safe to show.
func (a *app) warn(line string) { fmt.Fprintln(a.Stderr, "coppice: "+line) }

// printNone says on standard error that a list is empty; standard output stays empty.
func (a *app) printNone(what string) {
	if !a.json {
		fmt.Fprintln(a.Stderr, "no "+what)
	}
}

func (a *app) main(ctx context.Context) error {
	var c commands
	err := flags.Program{
		Name: "coppice", About: about, Envs: "COPPICE_", Stdout: a.Stdout, Stderr: a.Stderr,
		Run: func(ctx context.Context, of any, typed []flags.Typed) error {
			a.json, a.typed = c.JSON, typed
			return of.(command).Run(ctx, a)
		},
		Complete: complete,
	}.Main(ctx, &c, a.Args)
	var usage *flags.UsageError
	if errors.As(err, &usage) {
		return usagef("%w; see %s --help", usage.Err, usage.Command)
	}
	return err
}

// command is a command of the grammar.
type command interface {
	Run(ctx context.Context, a *app) error
}

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// exitCode is the error of a command that has already printed everything.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// isTerminal reports whether a stream is a terminal of any kind.
func isTerminal(stream any) bool {
	f, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}

// terminal reports whether a stream is a terminal that can be drawn on, and returns its width.
func (a *app) terminal(stream any) (width int, ok bool) {
	if !isTerminal(stream) || a.Getenv("TERM") == "dumb" {
		return 0, false
	}
	width, _, err := term.GetSize(int(stream.(*os.File).Fd()))
	return width, err == nil && width > 0
}

// theme returns the theme of standard output.
func (a *app) theme() theme {
	_, terminal := a.terminal(a.Stdout)
	return newTheme(a.utf8(), terminal)
}

// utf8 reports whether the locale uses UTF-8.
func (a *app) utf8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(a.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// print prints styled lines, with as many colours as the terminal supports.
func (a *app) print(lines ...string) error {
	if _, err := lipgloss.Fprintln(a.Stdout, strings.Join(lines, "\n")); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// printJSON prints messages, one on each line.
func (a *app) printJSON(messages ...proto.Message) error {
	for _, m := range messages {
		line, err := jsonLine(m)
		if err != nil {
			return err
		}
		if _, err := a.Stdout.Write(line); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}
