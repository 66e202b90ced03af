package assembly_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/chaos"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/proctest"
)

// replicas is three orchestrators on one PostgreSQL, and two workers.
func replicas(t *testing.T, scenario string) (*deployment, *pgtest.Server) {
	t.Helper()
	d := deploy(t, scenario)
	server := pgtest.Start(t)
	d.database = server.Database(t)
	d.addresses = append(d.addresses, proctest.FreeAddress(t), proctest.FreeAddress(t))
	d.startAll()
	return d, server
}

// TestReplicasAreEqual kills one orchestrator after another while trees grow, every other time
// the one that the tree is watched over. Their workers stay: what they do goes on over other
// replicas, and so do watches.
func TestReplicasAreEqual(t *testing.T) {
	t.Parallel()
	d, _ := replicas(t, slow)
	c := d.client()
	strikes := often(4, 100)
	all := c.storm(strikes, 25, func(i int) {
		i = (slices.Index(d.addresses, c.server.Load().(string)) + i%2) % len(d.addresses)
		d.kill(orchestratorName(i))
		d.startOrchestrator(i)
		d.serves(i)
	})
	breaks := c.survived(all)
	fewCameLate(t, all, strikes)
	if len(breaks) == 0 {
		t.Error("no watch ever broke")
	}
	t.Logf("watches went on after %s", breaks)
}

// fewCameLate: workers that live go on with their runs over another replica. On a
// machine that is short of time one may come after the grace, but not many: a strike
// meets all runs that a replica holds.
func fewCameLate(t *testing.T, all []watched, strikes int) {
	t.Helper()
	late := redelivered(all)
	if len(late) > strikes {
		t.Errorf("%d runs were redelivered in %d strikes, though all workers live", len(late), strikes)
	}
	t.Logf("workers came too late for %d runs", len(late))
	for _, w := range all {
		for i, e := range w.events {
			if slices.Contains(late, e) {
				t.Logf("%s: event %d of session %s, %s", e.GetTime().AsTime().Format(time.StampMilli), e.GetSeq(), w.session, since(w.events[:i], e))
			}
		}
	}
}

// since says how long before an event its task was last heard of, and what it did.
func since(events []*pb.Event, e *pb.Event) string {
	for _, last := range slices.Backward(events) {
		if last.GetTaskId() == e.GetTaskId() {
			return fmt.Sprintf("%s after %v", e.GetTime().AsTime().Sub(last.GetTime().AsTime()), last)
		}
	}
	return "the first of its task"
}

// TestRollingUpgradeLosesNothing ends one orchestrator after another in good order.
func TestRollingUpgradeLosesNothing(t *testing.T) {
	t.Parallel()
	d, _ := replicas(t, slow)
	c := d.client()
	var exits figures
	strikes := often(4, 20)
	all := c.storm(strikes, 25, func(i int) {
		i %= len(d.addresses)
		exits = append(exits, d.terminate(orchestratorName(i)))
		d.startOrchestrator(i)
		d.serves(i)
	})
	breaks := c.survived(all)
	fewCameLate(t, all, strikes)
	t.Logf("orchestrators ended within %s; watches went on after %s", exits, breaks)
}

// serves waits until an orchestrator answers.
func (d *deployment) serves(i int) {
	d.t.Helper()
	alone := *d
	alone.addresses = d.addresses[i : i+1]
	c := alone.client()
	if _, err := c.ListAgents(c.ctx(), &pb.ListAgentsRequest{}); err != nil {
		d.t.Fatal(err)
	}
}

// stopPatience bounds how long a process may take to end that is asked to; 5 s
// are wanted, 10 with a database that does not respond, the rest is the machine's.
const stopPatience = 20 * time.Second

// terminate asks a process to end, waits until it has, and says how long it took.
func (d *deployment) terminate(name string) time.Duration {
	d.t.Helper()
	cmd := d.processes[name]
	delete(d.processes, name)
	asked := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Errorf("ending %s: %v", name, err)
	}
	if err := cmd.Wait(); err != nil {
		d.t.Errorf("%s ended with %v", name, err)
	}
	took := time.Since(asked)
	if took > stopPatience {
		d.t.Errorf("%s took %s to end", name, took)
	}
	return took
}

// TestWatchersSeeOtherReplicasCommits watches one session on all replicas.
func TestWatchersSeeOtherReplicasCommits(t *testing.T) {
	t.Parallel()
	d, _ := replicas(t, slow)
	session := d.client().create("go").GetId()
	var logs [][]*pb.Event
	for i := range d.addresses {
		alone := *d
		alone.addresses = d.addresses[i : i+1]
		events, _ := alone.client().idle(session)
		logs = append(logs, events)
	}
	for i, events := range logs[1:] {
		if len(events) != len(logs[0]) {
			t.Fatalf("replica %d shows %d events, replica 1 %d", i+2, len(events), len(logs[0]))
		}
		for j := range events {
			if !proto.Equal(events[j], logs[0][j]) {
				t.Errorf("event %d is %v on replica %d, %v on replica 1", j+1, events[j], i+2, logs[0][j])
			}
		}
	}
}

// TestKilledPostgresOnlyDelays kills the database again and again.
func TestKilledPostgresOnlyDelays(t *testing.T) {
	t.Parallel()
	d, server := replicas(t, slow)
	c := d.client()
	all := c.storm(often(4, 20), 25, func(int) {
		server.Kill()
		server.Restart()
	})
	c.survived(all)
	t.Logf("%d trees; %d runs were redelivered", len(all), len(redelivered(all)))
}

// TestAnOrchestratorStopsWithoutItsDatabase: what it can't record any more does not hold it up.
func TestAnOrchestratorStopsWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	d, server := replicas(t, slow)
	c, seen := d.client(), 0
	c.watch(c.create("go").GetId(), func(*pb.Event) (enough bool) {
		seen++
		return seen == 25
	})
	server.Kill()
	_, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "go"}})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("without a database a session was created: %v", err)
	}
	d.terminateAll()
	server.Restart()
}

// TestAnOrchestratorStopsWithASilentDatabase, which has not responded to what is being stored.
func TestAnOrchestratorStopsWithASilentDatabase(t *testing.T) {
	t.Parallel()
	d, server := deploy(t, slow), pgtest.Start(t)
	between := link(t, server.Addr())
	d.database = strings.Replace(server.Database(t), server.Addr(), between.Addr(), 1)
	d.addresses = append(d.addresses, proctest.FreeAddress(t))
	d.startAll()
	for i := range d.addresses {
		d.serves(i)
	}
	c, seen := d.client(), 0
	c.watch(c.create("go").GetId(), func(*pb.Event) (enough bool) {
		seen++
		return seen == 25
	})
	between.Set(chaos.BlackHole())
	d.terminateAll()
}

// terminateAll asks the orchestrators to end, one after the other.
func (d *deployment) terminateAll() {
	d.t.Helper()
	for i := range d.addresses {
		d.t.Logf("orchestrator %d ended within %s", i+1, d.terminate(orchestratorName(i)))
	}
}

// TestNobodyIsNudgedInVain: a replica that is alone tells nobody what it commits, and one
// that is joined by another does.
func TestNobodyIsNudgedInVain(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.database = pgtest.Start(t).Database(t)
	_, first := a.orchestrator()
	a.worker(first, `steps: [{text: done}]`, nil)
	c := a.client(first)
	since := published(t, a.redis)
	nudges := func(some bool) {
		t.Helper()
		for patient := c.ctx(); patient.Err() == nil; {
			since("")
			c.wait(c.create("go").GetId(), "")
			if got := since(":nudge"); len(got) > 0 == some {
				return
			}
		}
		t.Errorf("nudged: %v", !some)
	}
	nudges(false)
	a.orchestrator()
	nudges(true)
}

// TestADatabaseOutageIsNoDeath takes the database away for longer than a replica may be silent.
// Replicas that come back to it do not take each other's runs: what those run goes on.
func TestADatabaseOutageIsNoDeath(t *testing.T) {
	t.Parallel()
	d, server := replicas(t, heldTree)
	c := d.client()
	session := d.held(c)
	const beats, failed = 6, "a heartbeat failed"
	server.Kill()
	until(t, "heartbeats that fail for longer than a replica may be silent", func() bool {
		return d.times(failed) >= beats*len(d.addresses)
	})
	server.Restart()
	until(t, "a database that is back", func() bool {
		_, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{})
		return err == nil
	})
	d.letGo(c, session)
}

// TestPausesAreNoDeath pauses all replicas and workers again and again, each time for longer than a
// stream may be silent, an attempt without a stream, and a replica without a heartbeat. Between two
// pauses they hardly get to do anything.
func TestPausesAreNoDeath(t *testing.T) {
	t.Parallel()
	d, _ := replicas(t, heldTree)
	c := d.client()
	session := d.held(c)
	const (
		pauses = 4
		pause  = 5 * time.Second
		awake  = 50 * time.Millisecond
	)
	for range pauses {
		for name := range d.processes {
			d.signal(name, syscall.SIGSTOP)
		}
		time.Sleep(pause)
		for name := range d.processes {
			d.signal(name, syscall.SIGCONT)
		}
		time.Sleep(awake)
	}
	d.letGo(c, session)
}

// held grows a heldTree until its leaves are at work.
func (d *deployment) held(c *client) (session string) {
	d.t.Helper()
	arrivals := proctest.OpenLines(d.t, d.in("arrivals"))
	session = c.bypassing("Survey the wood.")
	for range heldLeaves {
		arrivals.Next()
	}
	return session
}

// letGo lets the leaves of a heldTree end, each in its first attempt.
func (d *deployment) letGo(c *client, session string) {
	t := d.t
	t.Helper()
	d.write("go", "")
	if root := c.wait(session, ""); root.GetResult() != "surveyed 2" {
		t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
	}
	for _, task := range c.tasks(session) {
		if task.GetDepth() == 3 && task.GetEpoch() != 1 {
			t.Errorf("task %s is in attempt %d, though its worker lives", task.GetId(), task.GetEpoch())
		}
	}
	c.sound()
}

// TestReplicasWorkWithoutRedis takes Redis away while all slots are idle, or has it refuse all
// commands that write, reads of hints among them. Workers that can't read hints get runs from the
// replicas of their streams, and read hints again once Redis is back.
func TestReplicasWorkWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(t *testing.T, d *deployment) (mend func()){
		"killed": func(_ *testing.T, d *deployment) func() {
			d.redis.Kill()
			return d.redis.Restart
		},
		"refuses writes": func(t *testing.T, d *deployment) func() {
			client := d.redis.Client()
			need := func(replicas string) {
				if err := client.ConfigSet(t.Context(), "min-replicas-to-write", replicas).Err(); err != nil {
					t.Error(err)
				}
			}
			need("1")
			return func() { need("0") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workWithoutRedis(t, strike)
		})
	}
}

func workWithoutRedis(t *testing.T, strike func(t *testing.T, d *deployment) (mend func())) {
	d, _ := replicas(t, `steps: [{text: done}]`)
	work := func(i int) {
		c := d.at(i)
		if root := c.wait(c.create("go").GetId(), ""); root.GetResult() != "done" {
			t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
		}
	}
	announces := func(i int) {
		t.Helper()
		until(t, "a replica that announces runs, and slots that read hints", func() bool {
			before := readHints(t, d)
			work(i)
			return readHints(t, d) > before
		})
	}
	for i := range d.addresses { // once it knows the others
		announces(i)
	}
	mend := strike(t, d)
	for i := range d.addresses {
		work(i)
	}
	mend()
	for i := range d.addresses {
		announces(i)
	}
	d.client().sound()
}

// readHints gives how many hints have been read from the dispatch stream since Redis has started.
func readHints(t *testing.T, d *deployment) (read int64) {
	t.Helper()
	client := d.redis.Client()
	streams, _, err := client.ScanType(t.Context(), 0, "coppice:*", 1000, "stream").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range streams {
		groups, err := client.XInfoGroups(t.Context(), stream).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			read += g.EntriesRead
		}
	}
	return read
}
