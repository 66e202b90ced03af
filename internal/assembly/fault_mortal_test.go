package assembly_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
)

// mortalVariable makes the test's binary a worker whose tools kill it: they have
// their effect, and nobody hears of it any more. Its value is where the
// orchestrators are; the arguments are Redis and the worker's directory.
const mortalVariable = "COPPICE_TEST_MORTAL"

// mortal is the life of such a worker. It has one slot, so that nothing dies with
// a run but what has killed it.
func mortal(orchestrators string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	played, err := scripted.Load(filepath.Join(args[1], "scenario.yaml"))
	if err != nil {
		return err
	}
	client, err := assembly.OpenRedis(args[0])
	if err != nil {
		return err
	}
	defer client.Close()
	conn, err := assembly.Connect(orchestrators)
	if err != nil {
		return err
	}
	defer conn.Close()
	return assembly.Worker{
		Orchestrator: conn, Redis: client, Pool: assembly.DefaultPool, Slots: 1, Workspace: args[1],
		Model: scripted.New(played), Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Tools: []tool.Tool{
			deadly{name: "deploy", effect: tool.EffectLasting, dir: args[1]},
			deadly{name: "poison", effect: tool.EffectNone, dir: args[1]},
		},
	}.Run(ctx)
}

// deadly is a tool whose effect is a line in the file of its name.
type deadly struct {
	name   string
	effect tool.Effect
	dir    string
}

func (d deadly) Spec() model.ToolSpec {
	return model.ToolSpec{Name: d.name, Schema: json.RawMessage(`{"type":"object"}`)}
}

func (d deadly) Effect() tool.Effect { return d.effect }

// Guard makes its calls run without a question.
func (d deadly) Guard() tool.Guard { return tool.Guard{Access: policy.AccessRead} }

func (d deadly) Call(ctx context.Context, call tool.Call) tool.Outcome {
	f, err := os.OpenFile(filepath.Join(d.dir, d.name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return tool.Done{IsError: true, Text: err.Error()}
	}
	_, err = fmt.Fprintf(f, "%s\n", call.Input)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	<-ctx.Done()
	return tool.Done{IsError: true, Text: fmt.Sprintf("still alive: %v", err)}
}

// effects are the lines that a deadly tool has left.
func (d *deployment) effects(name string) []string {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(data)))
}

// mortals keeps so many mortal workers alive until the test ends, and counts how
// often one has killed itself.
func (d *deployment) mortals(n int) *atomic.Int64 {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	deaths := &atomic.Int64{}
	for range n {
		launch(d.t, func(ctx context.Context) error {
			for {
				cmd := exec.CommandContext(ctx, self, d.redis.URL(), d.dir)
				cmd.Env = append(os.Environ(), mortalVariable+"="+strings.Join(d.addresses, ","))
				cmd.Stderr = d.t.Output()
				err := cmd.Run()
				if ctx.Err() != nil {
					return nil //nolint:nilerr // the test is over, and has killed it
				}
				if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
					return fmt.Errorf("a mortal worker ended with %w", err)
				}
				deaths.Add(1)
			}
		})
	}
	return deaths
}

// TestAnEffectIsNeverRepeatedSilently has workers die between what a tool did and
// the record of it: the model is told that nobody knows, and no tool runs again.
func TestAnEffectIsNeverRepeatedSilently(t *testing.T) {
	t.Parallel()
	d := deploy(t, `
steps:
  - when: {turn: 1}
    calls: [{tool: deploy, input: {of: '{{.Prompt}}'}}]
  - text: looked
`)
	d.startOrchestrator(0)
	c := d.client()
	sessions := make([]string, often(6, 500))
	for i := range sessions {
		sessions[i] = c.create(fmt.Sprint("release ", i)).GetId()
	}
	deaths := d.mortals(2)
	for _, session := range sessions {
		w := c.follow(session, func(*pb.Event) {})
		checkTree(t, c.tasks(session), w.events, 1)
		told := 0
		for _, m := range c.transcript(session, c.root(session)) {
			for _, b := range m.GetBlocks() {
				if r := b.GetToolResult(); r.GetIsError() && strings.HasPrefix(r.GetText(), "outcome unknown") {
					told++
				}
			}
		}
		if told != 1 {
			t.Errorf("the model was told %d times that nobody knows", told)
		}
	}
	effects := d.effects("deploy")
	if n := len(slices.Compact(slices.Sorted(slices.Values(effects)))); n != len(sessions) || len(effects) != n {
		t.Errorf("%d effects of %d calls, want %d of as many", len(effects), n, len(sessions))
	}
	if n := int(deaths.Load()); n != len(sessions) {
		t.Errorf("%d workers died of it, want %d", n, len(sessions))
	}
	t.Logf("%d workers died after a tool's effect; %d effects, none twice", deaths.Load(), len(effects))
	c.sound()
}

// TestAPoisonousRunIsGivenUp has a run that kills each worker that touches it. It
// gets three, and the rest of its tree is carried to the end.
func TestAPoisonousRunIsGivenUp(t *testing.T) {
	t.Parallel()
	d := deploy(t, `
steps:
  - when: {depth: 0, turn: 1}
    calls:
      - {tool: task, input: {description: poison, prompt: poison, subagent_type: general-purpose}}
      - {tool: task, for_each: numbers 5, input: {description: 'child {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore}}
  - when: {depth: 0}
    text: 'joined {{len (results "task")}}'
  - when: {prompt: poison}
    calls: [{tool: poison, input: {}}]
  - text: done
`)
	d.startOrchestrator(0)
	c := d.client()
	sessions := make([]string, often(2, 50))
	for i := range sessions {
		sessions[i] = c.create("go").GetId()
	}
	deaths := d.mortals(2)
	for _, session := range sessions {
		c.follow(session, func(*pb.Event) {})
		if root := c.wait(session, ""); root.GetResult() != "joined 6" {
			t.Errorf("the root ended %s with %q: %s", root.GetState(), root.GetResult(), root.GetDetail())
		}
		for _, task := range c.tasks(session) {
			want := pb.Reason_REASON_UNSPECIFIED
			if task.GetDescription() == "poison" {
				want = pb.Reason_REASON_POISONED
			}
			if task.GetReason() != want || (task.GetState() == pb.TaskState_TASK_STATE_COMPLETED) != (want == 0) {
				t.Errorf("task %q ended %s %s: %s", task.GetDescription(), task.GetState(), task.GetReason(), task.GetDetail())
			}
		}
	}
	const each = 3
	if n := len(d.effects("poison")); n != each*len(sessions) || int(deaths.Load()) != n {
		t.Errorf("%d doses, %d deaths, want %d", n, deaths.Load(), each*len(sessions))
	}
	t.Logf("%d poisonous runs, %d workers died", len(sessions), deaths.Load())
	c.sound()
}
