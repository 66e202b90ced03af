package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/auth"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type runCommand struct {
	Workspace    string `placeholder:"DIR" help:"Directory that agents work in; default: the current one."`
	Data         string `placeholder:"DIR" help:"Directory to keep the session in; default: it is deleted at the end."`
	Orchestrator string `placeholder:"HOST:PORT" help:"Run on this orchestrator instead of in this process."`
	Shared       string `name:"shared-workspace" placeholder:"NAME" help:"With --orchestrator: directory in the workers' --workspaces to work in, shared with other sessions that name it."`
	Agent        string `env:"" placeholder:"NAME" help:"Agent of the root; default: general-purpose."`
	Deltas       bool   `help:"With --json: also print pieces of answers while they are generated."`
	Quiet        bool   `short:"q" help:"Print only the answer."`
	localFlags
	permissionFlags
	Approvals string `env:"" enum:"deny,escalate," default:"" placeholder:"WHERE" help:"Handling of sub-agents' calls that need approval: deny, or escalate to the session's approvals. Definitions can override it. Default: that of the orchestrator; in this process, escalate if somebody can answer, at this terminal or later because of --data, otherwise deny."`
	budgetFlags
	callbackFlags
	auth.ClientFlags
	Prompt []string `arg:"" help:"The prompt; - reads it from standard input."`
}

// Run runs the prompt in this process or at an orchestrator.
func (r *runCommand) Run(ctx context.Context, a *app) error {
	if err := a.refuseEmpty("orchestrator", "data"); err != nil {
		return err
	}
	prompt, err := a.text(ctx, r.Prompt)
	if err != nil {
		return err
	}
	asked, err := r.request(prompt)
	if err != nil {
		return err
	}
	if r.Orchestrator == "" {
		if err := a.refuseFlags(orchestratorFlags, "for a run at an orchestrator; set --orchestrator to use one"); err != nil {
			return err
		}
		if r.Data == "" && (r.Quiet || !a.asksAtTerminal()) {
			asked.Permissions = denyWithoutDecider(asked.Permissions)
		}
		return r.runInProcess(ctx, a, asked)
	}
	if err := a.refuseFlags(inProcessFlags, "for a run in this process, and can't be used with --orchestrator or COPPICE_ORCHESTRATOR"); err != nil {
		return err
	}
	asked.Workspace = r.Shared
	if a.hasFlag("model") {
		asked.Model = r.Model
	}
	there := remote{r.Orchestrator, r.ClientFlags}
	return there.with(func(c *client) error {
		session, err := r.runAt(ctx, a, c, asked, there.decisionHelp(a), r.askHint(), nil)
		if session != "" && (ctx.Err() != nil || isTemporary(err)) {
			a.complain("the session continues; watch it with: coppice watch" + there.flagsFor(a) + " " + session)
		}
		return err
	})
}

// inProcessFlags are the flags that configure an installation in this process. An orchestrator
// would ignore them. --model is not among them, because it is sent with the session.
const inProcessFlags = "workspace data agents-dir plugins-dir skills-dir models prices fetch-allow bash-network mcp-config " +
	"scenario thinking openai-api openai-effort patience sandbox sandbox-readable sandbox-env hooks definition-hooks callback-hosts redact-env redact-file " +
	"max-iterations max-iterations-sub run-timeout"

// orchestratorFlags are the flags that are only for an orchestrator and the connection to it. A
// run in this process would ignore them.
const orchestratorFlags = "shared-workspace on-approval token token-file tls tls-ca tls-cert tls-key insecure"

// refuseFlags refuses flags that are on the command line. Values from the environment are ignored,
// because they are for other commands too.
func (a *app) refuseFlags(flags, since string) error {
	var said []string
	for _, flag := range a.typed {
		if slices.Contains(strings.Fields(flags), flag.Name) {
			said = append(said, "--"+flag.Name)
		}
	}
	if len(said) == 0 {
		return nil
	}
	are := " is "
	if len(said) > 1 {
		are = " are "
	}
	return usagef("%s", strings.Join(said, ", ")+are+since)
}

// runInProcess runs the request with everything in this process.
func (r *runCommand) runInProcess(ctx context.Context, a *app, asked *pb.CreateSessionRequest) (err error) {
	if err := cmp.Or(isDirectory("--workspace", r.Workspace), isNoFile("--data", r.Data)); err != nil {
		return err
	}
	// Logs are buffered, because the drawing owns the terminal until it is over.
	var written bytes.Buffer
	m, err := a.measure(ctx, "", r.Redact, slog.NewTextHandler(&written, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err != nil {
		return err
	}
	defer func() {
		m.Close() // Close may log, too
		if written.Len() > 0 {
			fmt.Fprint(a.Stderr, safeText(written.String()))
		}
	}()
	install, chosen, err := r.devConfig(a, m)
	if err != nil {
		return err
	}
	if !a.json && !r.Quiet {
		fmt.Fprintln(a.Stderr, safeLine(m.secrets.String(chosen.Description)))
	}
	data, drop, err := r.data()
	if err != nil {
		return err
	}
	install.DataDir, install.Workspace = data, orCurrentDir(r.Workspace)
	running, err := assembly.StartDev(ctx, install)
	if err != nil {
		return errors.Join(fmt.Errorf("starting: %w", err), drop())
	}
	until, stop := whileRunning(ctx, running)
	var seen int64
	session, err := r.runAt(until, a, newClient(running.Conn()), asked, r.decisionHelp(a), r.askHint(), &seen)
	owing := session != "" && r.waitCallbacks(until, a, running, session, seen)
	stop()
	if (ctx.Err() != nil || owing) && session != "" && r.Data != "" {
		a.complain("the session is kept; continue it with: " + r.resumeCommand(a))
	}
	stopErr := errors.Join(running.Stop(), drop())
	if err != nil && stopErr != nil {
		a.complain("stopping: " + stopErr.Error())
		return err
	}
	return errors.Join(err, stopErr)
}

// resumeCommand returns the command that continues a kept session, with the same installation and
// workspace.
func (r *runCommand) resumeCommand(a *app) string {
	made := slices.DeleteFunc(strings.Fields(inProcessFlags+" model"), func(name string) bool { return name == "data" })
	return "coppice dev --data " + shellWord(r.Data) + a.typedFlags(made...)
}

// decisionHelp says how to decide on approvals of a session in this process, which other commands
// cannot reach until the process has ended.
func (r *runCommand) decisionHelp(a *app) decisionHelp {
	if r.Data == "" {
		return noDecisionHelp("the session is dropped", "--data DIR")
	}
	beside := remoteDecisionHelp("")
	return decisionHelp{fullTranscript: beside.fullTranscript, decideText: func(id string, q approvalCall) string {
		return r.resumeCommand(a) + ", and in another terminal " + beside.decideText(id, q)
	}}
}

// request returns the request for the session.
func (r *runCommand) request(prompt string) (*pb.CreateSessionRequest, error) {
	permissions, err := r.permissions(r.Approvals)
	if err != nil {
		return nil, err
	}
	budget, err := r.budgetFrom(nil)
	if err != nil {
		return nil, err
	}
	asked := &pb.CreateSessionRequest{
		Agent: r.Agent, Message: &pb.UserMessage{Text: prompt}, Permissions: permissions, Budget: budget,
	}
	r.setCallbacks(asked)
	return asked, nil
}

// askHint says how the questions of sub-agents could reach somebody instead of being denied; empty
// if the flags deny them, or if nothing would help.
func (r *runCommand) askHint() string {
	switch {
	case r.Approvals != "":
		return ""
	case r.Orchestrator != "":
		return "have them ask with --approvals escalate"
	case r.Data != "":
		return ""
	}
	return "keep the session with --data DIR, so that sub-agents can ask"
}

// runAt runs the request at an orchestrator, and returns the session. by says how to decide on
// approvals, ask how sub-agents can ask, and seen receives the last event that was shown.
func (r *runCommand) runAt(
	ctx context.Context, a *app, c *client, asked *pb.CreateSessionRequest, by decisionHelp, ask string, seen *int64,
) (session string, err error) {
	resp, err := c.sessions.CreateSession(ctx, asked)
	if err != nil {
		return "", during("creating the session", err)
	}
	session = resp.GetSession().GetId()
	var denied denials
	err = a.show(ctx, showOptions{
		client: c, session: session, untilIdle: true, deltas: r.Deltas, quiet: r.Quiet, decisionHelp: by, denials: &denied, lastSeq: seen,
		inProcess: r.Orchestrator == "",
	})
	if text := denied.text(ask); text != "" {
		a.warn(text)
	}
	return session, err
}

// data returns the data directory, and a function to clean it up.
func (r *runCommand) data() (dir string, drop func() error, err error) {
	if r.Data != "" {
		return r.Data, func() error { return nil }, nil
	}
	if dir, err = os.MkdirTemp("", "coppice-run-"); err != nil {
		return "", nil, fmt.Errorf("making a directory for the data: %w", err)
	}
	return dir, func() error {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing the data: %w", err)
		}
		return nil
	}, nil
}

// whileRunning returns a context that ends with a cause when the parts in this process stop. stop
// ends it and waits.
func whileRunning(ctx context.Context, running *assembly.Running) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-running.Done():
			cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

var errStopped = errors.New("the orchestrator or the worker in this process stopped")

// text returns the words of the command line, or standard input for -.
func (a *app) text(ctx context.Context, words []string) (string, error) {
	text := strings.Join(words, " ")
	if text == "-" {
		if isTerminal(a.Stdin) {
			a.complain("reading the text from standard input; Ctrl-D ends it")
		}
		data, err := a.file(ctx, "-", "the text", maxMessage)
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", usagef("the text is empty")
	case !utf8.ValidString(text):
		return "", usagef("the text is not UTF-8")
	}
	return text, nil
}

// isDirectory refuses a directory of a flag that does not exist; empty means the current
// directory.
func isDirectory(flag, dir string) error {
	info, err := os.Stat(orCurrentDir(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usagef("%s %s: no such directory", flag, dir)
	case err != nil:
		return usagef("%s: %w", flag, err)
	case !info.IsDir():
		return usagef("%s %s is no directory", flag, dir)
	}
	return nil
}

// isNoFile refuses a directory of a flag that is something else. It need not exist.
func isNoFile(flag, dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usagef("%s %s is no directory", flag, dir)
	}
	return nil
}

func orCurrentDir(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}
