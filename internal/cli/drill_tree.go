package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/drill"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// drillSetup is what all trees of a drill have in common.
type drillSetup struct {
	dir         string // of all trees
	keep        bool   // keep the directories
	workspace   string
	agent       string
	prompt      string
	permissions *pb.Permissions
	budget      *pb.Budget
	self        string   // this program; parts of the installation run it with the same arguments
	args        []string // and drillPart in the environment
}

// drillResult is the result of one tree.
type drillResult struct {
	number    int
	fault     *drill.Fault     // nil: none
	struck    *drill.Injection // nil: the fault did not happen
	broken    error            // why there is no result; nil: the other fields are set
	logErrors error            // errors that its processes logged

	root        *pb.Task
	tasks       []taskEnd // sorted
	spent       tokenUsage
	steps       drill.StepCounts
	redelivered int64    // runs that were delivered again because their worker was lost
	unknown     []string // tools of calls with unknown outcome
	violations  []*pb.Violation
	elapsed     time.Duration
}

// taskEnd is how a task of a tree ended.
type taskEnd struct {
	text  string // the task, and how it ended
	state pb.TaskState
}

const (
	// drillTimeout bounds the time of a tree.
	drillTimeout = 10 * time.Minute
	// maxDrillWorkspace bounds the workspace that is copied for each tree, in bytes.
	maxDrillWorkspace = 256 << 20
	// maxLogLines is how many log lines of a failed tree are shown.
	maxLogLines = 5
)

var (
	errDrillTimeout = fmt.Errorf("the tree has not ended within %s", drillTimeout)
	errProcessEnded = errors.New("a process has ended unexpectedly")
)

// blockedTree is the error of a tree that waits for an approval; a drill cannot decide approvals.
type blockedTree struct{ asks []string }

func (b *blockedTree) Error() string { return "blocked: " + strings.Join(b.asks, "; ") }

// growTree grows a tree, with or without a fault.
func (d *drillSetup) growTree(ctx context.Context, number int, fault *drill.Fault) (_ *drillResult, err error) {
	dir := filepath.Join(d.dir, fmt.Sprint(number))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for a tree: %w", err)
	}
	if !d.keep {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if err := copyWorkspace(filepath.Join(dir, "workspace"), d.workspace, d.dir); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	defer log.Close()
	site, err := drill.Open(drill.Config{
		Dir: dir, Fault: fault,
		Connect: func(target string) (*grpc.ClientConn, error) { return assembly.Connect(target) },
		Start: func(part drill.Part) *exec.Cmd {
			cmd := d.command(ctx, part)
			cmd.Stderr = log
			return cmd
		},
	})
	if err != nil {
		return nil, err
	}
	got, err := d.runSession(ctx, site)
	closed := site.Close()
	_, blocked := errors.AsType[*blockedTree](err)
	switch {
	case err == nil && closed == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case blocked:
		return nil, err
	default:
		return nil, errors.Join(err, closed, logErrors(log))
	}
	got.number, got.fault, got.logErrors = number, fault, logErrors(log)
	got.steps, got.struck, got.unknown = site.StepCounts(), site.Injected(), site.Unknown()
	return got, nil
}

// command prepares the process of a part of an installation.
func (d *drillSetup) command(ctx context.Context, part drill.Part) *exec.Cmd {
	said, err := json.Marshal(part)
	if err != nil {
		panic(fmt.Sprintf("cli: encoding a part: %v", err)) // cannot happen: a Part only has strings
	}
	cmd := exec.CommandContext(ctx, d.self, d.args...) //nolint:gosec // d.self is this program
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), drillPart+"="+string(said))
	return cmd
}

// logErrors returns the last errors in the log of a tree's processes, as one error.
func logErrors(log *os.File) error {
	text, err := os.ReadFile(log.Name())
	if err != nil {
		return err
	}
	var bad []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, " level=") || strings.Contains(line, " level=ERROR ") {
			bad = append(bad, strings.TrimSpace(line))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return errors.New(strings.Join(bad[max(0, len(bad)-maxLogLines):], "; "))
}

// runSession opens a session, waits until it is idle and reads the result.
func (d *drillSetup) runSession(ctx context.Context, site *drill.Site) (*drillResult, error) {
	ctx, stop := context.WithTimeoutCause(ctx, drillTimeout, errDrillTimeout)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		select {
		case <-site.Failed():
			fail(errProcessEnded)
		case <-ctx.Done():
		}
	}()
	c := newClient(site.Conn())
	begun := time.Now()
	session := ""
	err := retryTemporary(ctx, func() error {
		resp, err := c.sessions.CreateSession(ctx, &pb.CreateSessionRequest{
			Agent: d.agent, Message: &pb.UserMessage{Text: d.prompt}, Permissions: d.permissions, Budget: d.budget, IdempotencyKey: "drill",
		})
		session = resp.GetSession().GetId()
		return err
	})
	if err != nil {
		return nil, during("creating the session", err)
	}
	got := &drillResult{}
	w := &watcher{client: c.sessions, session: session, untilIdle: true}
	var idle *pb.Idle
	err = retryTemporary(ctx, func() (err error) {
		idle, err = w.each(ctx, func(step *pb.WatchSessionResponse) error {
			if step.GetEvent().GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED {
				got.redelivered++
			}
			return nil
		})
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, during("watching the session", err)
	case idle.GetCause() == pb.IdleCause_IDLE_CAUSE_BLOCKED:
		return nil, isBlocked(ctx, c, session)
	}
	got.elapsed = time.Since(begun)
	return got, got.read(ctx, c, session, idle.GetRoot().GetId())
}

// isBlocked returns a blockedTree with the open questions.
func isBlocked(ctx context.Context, c *client, session string) error {
	blocked := &blockedTree{}
	err := retryTemporary(ctx, func() (err error) {
		blocked.asks, err = c.openQuestions(ctx, session, noDecisionHelp("a drill cannot decide approvals", ""))
		return err
	})
	return cmp.Or[error](err, blocked)
}

// read reads a tree that has ended.
func (t *drillResult) read(ctx context.Context, c *client, session, root string) error {
	return retryTemporary(ctx, func() error {
		*t = drillResult{redelivered: t.redelivered, elapsed: t.elapsed}
		found, err := c.sessions.GetTree(ctx, &pb.GetTreeRequest{SessionId: session})
		if err != nil {
			return during("reading the tree", err)
		}
		t.spent = tokenUsage{}.addUsage(found.GetSession().GetUsage())
		for nodes := []*pb.TreeNode{found.GetRoot()}; len(nodes) > 0; nodes = nodes[1:] {
			nodes = append(nodes, nodes[0].GetChildren()...)
			resp, err := c.tasks.GetTask(ctx, &pb.GetTaskRequest{SessionId: session, TaskId: nodes[0].GetTask().GetId()})
			if err != nil {
				return during("reading a task", err)
			}
			task := resp.GetTask()
			if task.GetId() == root {
				t.root = task
			}
			t.tasks = append(t.tasks, taskEnd{endText(task), task.GetState()})
		}
		slices.SortFunc(t.tasks, func(a, b taskEnd) int { return strings.Compare(a.text, b.text) })
		diagnosed, err := c.admin.Diagnose(ctx, &pb.DiagnoseRequest{SessionId: session})
		if err != nil {
			return during("looking at what is stored", err)
		}
		t.violations = diagnosed.GetViolations()
		return nil
	})
}

// idPattern matches ids in texts. Each tree has other ids.
var idPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// answer returns the root's answer without ids.
func (t *drillResult) answer() string { return idPattern.ReplaceAllString(t.root.GetResult(), "ID") }

// endText describes a task and how it ended, without ids.
func endText(t *pb.Task) string {
	name := t.GetAgent()
	if t.GetKind() == pb.TaskKind_TASK_KIND_SHELL {
		name = "shell"
	}
	if description := safeLine(t.GetDescription()); description != "" {
		name += ": " + description
	}
	end := stateText(t.GetState())
	if reason := reasonText(t.GetReason(), t.GetDetail()); reason != "" {
		end += ", " + reason
	}
	if result := safeLine(t.GetResult()); result != "" {
		end += ": " + result
	}
	return strings.Repeat("  ", int(t.GetDepth())) + name + ": " + idPattern.ReplaceAllString(end, "ID")
}

// retryTemporary calls do until it succeeds or fails permanently, for at most retryTimeout.
func retryTemporary(ctx context.Context, do func() error) error {
	begun, pause := time.Now(), newBackOff()
	for {
		err := do()
		if err == nil || !isTemporary(err) || time.Since(begun) > retryTimeout {
			return err
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keepOriginal copies the workspace once, so that all trees begin with the same files, whatever
// changes meanwhile.
func (d *drillSetup) keepOriginal() error {
	original := filepath.Join(d.dir, "original")
	if err := copyWorkspace(original, d.workspace, d.dir); err != nil {
		return err
	}
	d.workspace = original
	return nil
}

// copyWorkspace copies the files, directories and links of a directory. It excludes the directory
// without, which contains the copies. [os.CopyFS] would refuse names that are not UTF-8.
func copyWorkspace(to, from, without string) error {
	copies, err := os.Stat(without)
	if err == nil {
		from, err = filepath.EvalSymlinks(from)
	}
	if err == nil {
		err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			return copyEntry(filepath.Join(to, name), path, d, copies)
		})
	}
	if err != nil {
		return fmt.Errorf("copying the workspace: %w", err)
	}
	return nil
}

// copyEntry copies a file or a link, and creates a directory, unless it is the excluded one.
func copyEntry(to, from string, d fs.DirEntry, without os.FileInfo) error {
	switch d.Type() {
	case fs.ModeDir:
		if info, err := d.Info(); err != nil || os.SameFile(info, without) {
			return cmp.Or(err, fs.SkipDir)
		}
		return os.Mkdir(to, 0o777) //nolint:gosec // less the umask
	case fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case 0:
		return copyFile(to, from)
	}
	return nil
}

// copyFile copies a file, which may be executable.
func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666|info.Mode()&0o777)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// checkWorkspaceSize refuses a workspace that is too large to be copied for each tree.
func checkWorkspaceSize(dir string) error {
	var size int64
	dir, err := filepath.EvalSymlinks(dir) // WalkDir would look at a link, not into it
	if err != nil {
		return fmt.Errorf("looking at the workspace: %w", err)
	}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += info.Size(); size > maxDrillWorkspace {
			return usagef("the workspace has more than %d MB, and each tree gets a copy of it: name a smaller one with --workspace", maxDrillWorkspace>>20)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking at the workspace: %w", err)
	}
	return nil
}
