package assembly_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/redistest"
)

// deployment is orchestrators and workers as processes of their own.
type deployment struct {
	t         *testing.T
	bin, dir  string
	addresses []string // one for each orchestrator
	database  string
	redis     *redistest.Server
	processes map[string]*exec.Cmd

	orchestratorFlags, workerFlags []string // beside those that all have
	workspaces                     string   // each session has its own below it; empty: all work in dir
	asks                           bool     // workers ask the provider of their environment, not the scenario

	environ map[string][]string // of a program, or of all if it has no name, beside that of the test
	logs    *logs
}

// logs are what all processes have logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// build makes the binaries once for all tests.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "coppice-bin-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // commands run as nobody
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir, "../../cmd/orchestrator", "../../cmd/worker", "../mcp/mcptest/greeter").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	if orchestrators := os.Getenv(mortalVariable); orchestrators != "" {
		if err := mortal(orchestrators, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := build(); err == nil {
			if err := os.RemoveAll(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		os.Exit(code)
	}), goleak.IgnoreAnyFunction(redialling))
}

// redialling is what a closed client of a Redis that is away does for up to a second more.
const redialling = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

func deploy(t *testing.T, scenario string) *deployment {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{
		t: t, bin: bin, dir: t.TempDir(), addresses: []string{proctest.FreeAddress(t)},
		redis: redistest.Start(t), processes: map[string]*exec.Cmd{}, logs: &logs{},
	}
	d.database = filepath.Join(d.dir, "coppice.db")
	if err := os.WriteFile(filepath.Join(d.dir, "scenario.yaml"), []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for name := range maps.Clone(d.processes) {
			d.kill(name)
		}
	})
	return d
}

func (d *deployment) start(name, program string, args ...string) {
	d.t.Helper()
	cmd := exec.Command(filepath.Join(d.bin, program), args...)
	cmd.Stderr = io.MultiWriter(d.t.Output(), d.logs)
	cmd.Env = slices.Concat(os.Environ(), d.environ[""], d.environ[program])
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.processes[name] = cmd
}

func (d *deployment) startAll() {
	d.t.Helper()
	for i := range d.addresses {
		d.startOrchestrator(i)
	}
	for _, name := range []string{"worker 1", "worker 2"} {
		d.startWorker(name)
	}
}

func (d *deployment) startOrchestrator(i int) {
	d.t.Helper()
	d.start(orchestratorName(i), "orchestrator", append([]string{"--listen", d.addresses[i],
		"--database", d.database, "--redis-url", d.redis.URL()}, d.orchestratorFlags...)...)
}

func orchestratorName(i int) string { return fmt.Sprint("orchestrator ", i+1) }

func (d *deployment) startWorker(name string) {
	d.t.Helper()
	where := []string{"--workspace", d.dir}
	if d.workspaces != "" {
		where = []string{"--workspaces", d.workspaces}
	}
	args := append([]string{"--orchestrator", strings.Join(d.addresses, ","), "--redis-url", d.redis.URL(), "--slots", "4"}, where...)
	if !d.asks {
		args = append(args, "--scenario", filepath.Join(d.dir, "scenario.yaml"))
	}
	d.start(name, "worker", append(args, d.workerFlags...)...)
}

// kill ends a process as a crash would.
func (d *deployment) kill(name string) {
	d.t.Helper()
	cmd := d.processes[name]
	delete(d.processes, name)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		d.t.Errorf("killing %s: %v", name, err)
	}
	_ = cmd.Wait() // it was killed, and says so
}

func (d *deployment) client() *client {
	d.t.Helper()
	conn, err := assembly.Connect(strings.Join(d.addresses, ","))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return newClient(d.t, conn)
}

// slow is a tree whose agents take their time, so that something is always under way.
const slow = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, for_each: numbers 12, input: {description: 'child {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore}}]
  - when: {depth: 0}
    text: 'joined {{len (results "task")}}'
  - when: {depth: 1, turn: 1}
    delay: 150ms
    calls: [{tool: task, for_each: numbers 3, input: {description: 'leaf {{.Item}}', prompt: 'leaf {{.Item}}', subagent_type: explore}}]
  - when: {depth: 1}
    delay: 100ms
    text: 'below {{len (results "task")}}'
  - when: {turn: 1}
    delay: 150ms
    calls: [{tool: ls, input: {path: .}}, {tool: glob, input: {pattern: '**'}}]
  - {delay: 150ms, text: done}
`

// events watches until stop says that it has seen enough.
func (c *client) events(session string, stop func(*pb.Event) bool) []*pb.Event {
	c.t.Helper()
	return c.watch(session, stop).events
}

// TestEverythingIsKilled runs a tree on two workers, kills all three processes in
// the middle of it, and starts them again.
func TestEverythingIsKilled(t *testing.T) {
	t.Parallel()
	d := deploy(t, slow)
	d.startAll()
	c := d.client()
	session := c.create("go").GetId()

	results := 0
	before := c.events(session, func(e *pb.Event) bool {
		if e.GetResult() != nil {
			results++
		}
		return results == 10
	})
	for _, name := range []string{"worker 1", "orchestrator 1", "worker 2"} {
		d.kill(name)
	}
	d.startAll()
	c = d.client()

	after, idle := c.idle(session)
	if len(after) <= len(before) {
		t.Fatalf("%d events before the kill, %d after", len(before), len(after))
	}
	for i := range before {
		if !proto.Equal(before[i], after[i]) {
			t.Errorf("event %d was %v, is %v", i+1, before[i], after[i])
		}
	}
	if root := c.wait(session, ""); root.GetResult() != "joined 12" {
		t.Errorf("the root ended %s with %q: %s", root.GetState(), root.GetResult(), idle)
	}
	checkTree(t, c.tasks(session), after, 1+12+12*3)
	c.sound()
	workers := map[string]bool{}
	for _, e := range after {
		if d := e.GetDispatched(); d != nil {
			workers[d.GetWorkerId()] = true
		}
	}
	if len(workers) < 2 {
		t.Errorf("only %v worked", workers)
	}
	if len(redelivered([]watched{{events: after}})) == 0 {
		t.Error("nothing was under way when everything was killed")
	}
}

// checkTree holds a finished tree against its events: all completed, one start
// and one result for each run.
func checkTree(t *testing.T, tasks []*pb.Task, events []*pb.Event, want int) {
	t.Helper()
	if len(tasks) != want {
		t.Errorf("%d tasks, want %d", len(tasks), want)
	}
	for _, task := range tasks {
		if task.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
			t.Errorf("task %s (%s) is %s: %s", task.GetId(), task.GetDescription(), task.GetState(), task.GetDetail())
		}
	}
	started, ended := map[string]int{}, map[string]int{}
	for _, e := range events {
		switch {
		case e.GetStarted() != nil:
			started[e.GetTaskId()]++
		case e.GetResult() != nil:
			ended[e.GetTaskId()]++
		}
	}
	for id, n := range started {
		if n != 1 || ended[id] != 1 {
			t.Errorf("task %s has %d starts and %d results", id, n, ended[id])
		}
	}
	if len(started) != want {
		t.Errorf("%d tasks started, want %d", len(started), want)
	}
}

// TestADatabaseHasOneProcess starts a second orchestrator on the same file.
func TestADatabaseHasOneProcess(t *testing.T) {
	t.Parallel()
	d := deploy(t, slow)
	d.startAll()
	d.client().create("")
	second := exec.Command(filepath.Join(d.bin, "orchestrator"), "--listen", "127.0.0.1:0",
		"--database", filepath.Join(d.dir, "coppice.db"), "--redis-url", d.redis.URL())
	out, err := second.CombinedOutput()
	holder := fmt.Sprintf("process %d on", d.processes["orchestrator 1"].Process.Pid)
	if err == nil || !bytes.Contains(out, []byte(holder)) {
		t.Errorf("a second process: %v, want it to name %q:\n%s", err, holder, out)
	}
}
