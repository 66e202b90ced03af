package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/alive"
	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/drill"
)

type drillCommand struct {
	Workspace string `placeholder:"DIR" help:"Directory to copy for each tree; default: the current one."`
	Agent     string `env:"" placeholder:"NAME" help:"Agent of the root; default: general-purpose."`
	Faults    int    `env:"" default:"24" placeholder:"N" help:"Number of trees to inject a fault into, at moments as different as possible; 0 means one tree per possible moment."`
	Only      *int   `env:"" placeholder:"N" help:"Run only the tree with this number."`
	Keep      string `env:"" placeholder:"DIR" help:"New directory to keep the results in: for each tree its database, its workspace and a log of all processes."`
	localFlags
	permissionFlags
	Approvals string `env:"" enum:"deny,escalate," default:"" placeholder:"WHERE" help:"Handling of sub-agents' calls that need approval: deny, or escalate to the session's approvals. Definitions can override it. Default: deny, because nobody could answer."`
	budgetFlags
	Prompt []string `arg:"" optional:"" help:"The prompt; - reads it from standard input. Default: one for the demo."`
}

// drillPrompt is the default prompt, which suits the demo.
const drillPrompt = "Survey this workspace"

// drillsAtOnce is how many trees grow at once, each in processes of its own.
const drillsAtOnce = 4

// drillPart is the environment variable that makes a process a part of a drill's installation. Its
// value is a drill.Part as JSON.
const drillPart = "COPPICE_DRILL_PART"

// Run grows a tree without a fault, and then one tree for each fault.
func (d *drillCommand) Run(ctx context.Context, a *app) error {
	if part := a.Getenv(drillPart); part != "" {
		return d.runPart(ctx, a, part)
	}
	if d.Faults < 0 {
		return usagef("--faults is %d; it has to be 0 or more", d.Faults)
	}
	if err := d.checkOnly(d.Faults); err != nil {
		return err
	}
	if err := isDirectory("--workspace", d.Workspace); err != nil {
		return err
	}
	setup, err := d.prepare(ctx, a)
	if err != nil {
		return err
	}
	if d.Keep == "" {
		defer func() {
			if err := os.RemoveAll(setup.dir); err != nil {
				a.complain("cleaning up: " + err.Error())
			}
		}()
	}
	if err := setup.keepOriginal(); err != nil {
		return err
	}
	baseline, err := setup.growTree(ctx, 0, nil)
	if blocked, is := errors.AsType[*blockedTree](err); is {
		return a.blockedExit(blocked.asks)
	}
	if err != nil {
		return err
	}
	a.reportUndisturbed(baseline)
	plan := numbered(drill.Plan(baseline.steps, d.Faults))
	if err := d.checkOnly(len(plan)); err != nil { // there may be fewer moments than requested faults
		return err
	}
	if d.Only != nil {
		plan = plan[*d.Only-1 : *d.Only]
	}
	if err := a.printUndisturbed(baseline, len(plan)); err != nil {
		return err
	}
	all, err := a.growWithFaults(ctx, setup, baseline, plan)
	if err != nil {
		return err
	}
	if !a.json {
		if err := a.print("", all.String()); err != nil {
			return err
		}
	}
	if all.bad > 0 {
		return exitCode(exitFailed)
	}
	return nil
}

// reportUndisturbed reports what has gone wrong without a fault.
func (a *app) reportUndisturbed(baseline *drillResult) {
	if baseline.logErrors != nil {
		a.complain("undisturbed: " + baseline.logErrors.Error())
	}
	if why := reasonText(baseline.root.GetReason(), baseline.root.GetDetail()); outcome(baseline.root) != nil && why != "" {
		a.complain("undisturbed: " + why)
	}
}

// checkOnly checks --only against the number of trees; 0 means that the number is not known yet.
func (d *drillCommand) checkOnly(trees int) error {
	switch {
	case d.Only == nil:
	case trees == 0 && *d.Only < 1:
		return usagef("--only is %d; the trees have numbers from 1", *d.Only)
	case *d.Only < 1, trees > 0 && *d.Only > trees:
		return usagef("--only is %d; the trees have numbers from 1 to %d", *d.Only, trees)
	}
	return nil
}

// numberedFault is a fault with the number of its tree.
type numberedFault struct {
	drill.Fault
	number int
}

func numbered(plan []drill.Fault) []numberedFault {
	all := make([]numberedFault, len(plan))
	for i, f := range plan {
		all[i] = numberedFault{f, i + 1}
	}
	return all
}

// growWithFaults grows a tree for each fault, several at once, and prints each result.
func (a *app) growWithFaults(ctx context.Context, setup *drillSetup, baseline *drillResult, plan []numberedFault) (all drillSummary, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(drillsAtOnce)
	for _, fault := range plan {
		g.Go(func() error {
			got, err := setup.growTree(ctx, fault.number, &fault.Fault)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil:
				got = &drillResult{number: fault.number, fault: &fault.Fault, broken: err}
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(baseline, got)
			return a.printResult(baseline, got)
		})
	}
	err = g.Wait()
	return all, err
}

// prepare checks all flags before anything is started.
func (d *drillCommand) prepare(ctx context.Context, a *app) (*drillSetup, error) {
	words := d.Prompt
	if len(words) == 0 {
		words = []string{drillPrompt}
	}
	prompt, err := a.text(ctx, words)
	if err != nil {
		return nil, err
	}
	m, err := a.measure(ctx, "", d.Redact, slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	_, chosen, err := d.devConfig(a, m)
	if err != nil {
		return nil, err
	}
	permissions, err := d.permissions(d.Approvals)
	if err != nil {
		return nil, err
	}
	budget, err := d.budgetFrom(nil)
	if err != nil {
		return nil, err
	}
	if err := checkWorkspaceSize(orCurrentDir(d.Workspace)); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking for this program: %w", err)
	}
	dir, err := d.dir()
	if err != nil {
		return nil, err
	}
	if !a.json {
		fmt.Fprintln(a.Stderr, safeLine(m.secrets.String(chosen.Description)))
	}
	return &drillSetup{
		dir: dir, keep: d.Keep != "", workspace: orCurrentDir(d.Workspace), agent: d.Agent, prompt: prompt,
		permissions: denyWithoutDecider(permissions), budget: budget, self: self, args: a.Args,
	}, nil
}

// socketPath is the portable maximum length of a socket path, in bytes.
const socketPath = 100

// dir creates the directory of all trees.
func (d *drillCommand) dir() (dir string, err error) {
	if d.Keep == "" {
		if dir, err = os.MkdirTemp("", "coppice-drill-"); err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return "", fmt.Errorf("making a directory for the data: %w", err)
		}
	} else {
		if dir, err = filepath.Abs(d.Keep); err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if errors.Is(err, fs.ErrExist) { // what is left of an earlier drill would look like a part of this one
			return "", usagef("--keep: %s exists; name a directory that does not exist", d.Keep)
		}
		if err != nil {
			return "", usagef("--keep: %w", err)
		}
	}
	if len(filepath.Join(dir, "9999", string(drill.RoleOrchestrator))) > socketPath {
		return "", errors.Join(usagef("%s is too long for the path of a socket: set a shorter one with --keep or $TMPDIR", dir), os.Remove(dir))
	}
	return dir, nil
}

// runPart runs one part of an installation. It ends with its standard input, so that no part
// outlives the parent.
func (d *drillCommand) runPart(ctx context.Context, a *app, said string) error {
	var part drill.Part
	if err := json.Unmarshal([]byte(said), &part); err != nil {
		return usagef("$%s: %w", drillPart, err)
	}
	// An interrupt from the terminal is for the parent, which then ends its parts.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, a.Stdin)
	}()
	m, err := a.measure(ctx, "", d.Redact, slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err != nil {
		return err
	}
	defer m.Close()
	install, _, err := d.devConfig(a, m)
	if err != nil {
		return err
	}
	install.DataDir, install.Workspace = part.Data, part.Workspace
	redis, err := assembly.OpenRedis(part.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	if part.Role == drill.RoleWorker {
		conn, err := assembly.Connect("unix:" + part.Orchestrator)
		if err != nil {
			return err
		}
		defer conn.Close()
		worker := install.Worker(redis, conn)
		if worker.Alive, err = alive.Listen("127.0.0.1:0"); err != nil {
			return err
		}
		return worker.Run(ctx)
	}
	if err := errors.Join(os.MkdirAll(part.Data, 0o700), os.RemoveAll(part.Orchestrator)); err != nil { // a killed orchestrator leaves its socket behind
		return fmt.Errorf("preparing the data directory: %w", err)
	}
	l, err := net.Listen("unix", part.Orchestrator)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return install.Orchestrator(redis, l).Run(ctx, func() {})
}
