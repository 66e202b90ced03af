package assembly_test

import (
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
)

// replicas is three orchestrators on one PostgreSQL, and two workers.
func replicas(t *testing.T, scenario string) (*deployment, *pgtest.Server) {
	t.Helper()
	d := deploy(t, scenario)
	server := pgtest.Start(t)
	d.database = server.Database(t)
	d.addresses = append(d.addresses, freeAddress(t), freeAddress(t))
	d.startAll()
	return d, server
}

// oneByOne calls act for one orchestrator after another whenever the tree has come
// a step further, until its root has ended.
func (d *deployment) oneByOne(session string, act func(i int)) (rounds int) {
	d.t.Helper()
	ended := false
	for after := int64(0); !ended; rounds++ {
		c := d.client()
		seen := 0
		stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, AfterSeq: after})
		for err == nil && seen < 25 && !ended {
			var resp *pb.WatchSessionResponse
			if resp, err = stream.Recv(); err == nil {
				e := resp.GetEvent()
				after = e.GetSeq()
				seen++
				ended = e.GetResult() != nil && e.GetTaskId() == c.root(session)
			}
		}
		if !ended && seen == 25 {
			act(rounds % len(d.addresses))
		}
	}
	return rounds
}

// TestReplicasAreEqual kills one orchestrator after another while a tree grows.
// Its workers stay: what they do goes on over other replicas.
func TestReplicasAreEqual(t *testing.T) {
	t.Parallel()
	d, _ := replicas(t, slow)
	session := d.client().create("go").GetId()
	kills := 0
	d.oneByOne(session, func(i int) {
		d.kill(orchestratorName(i))
		d.startOrchestrator(i)
		kills++
	})
	c := d.client()
	events, _ := c.idle(session)
	checkTree(t, c.tasks(session), events, 1+12+12*3)
	c.sound()
	if kills < 3 {
		t.Errorf("only %d kills", kills)
	}
	for _, e := range events {
		if e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED {
			t.Errorf("run %d of task %s was redelivered, though its worker lives", e.GetRun(), e.GetTaskId())
		}
	}
}

// TestRollingUpgradeLosesNothing ends one orchestrator after another in good order.
func TestRollingUpgradeLosesNothing(t *testing.T) {
	t.Parallel()
	d, _ := replicas(t, slow)
	session := d.client().create("go").GetId()
	rolls := 0
	d.oneByOne(session, func(i int) {
		d.terminate(orchestratorName(i))
		d.startOrchestrator(i)
		rolls++
	})
	c := d.client()
	events, _ := c.idle(session)
	checkTree(t, c.tasks(session), events, 1+12+12*3)
	c.sound()
	if rolls < 3 {
		t.Errorf("only %d replicas were rolled", rolls)
	}
}

// terminate asks a process to end, and waits until it has.
func (d *deployment) terminate(name string) {
	d.t.Helper()
	cmd := d.processes[name]
	delete(d.processes, name)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Errorf("ending %s: %v", name, err)
	}
	if err := cmd.Wait(); err != nil {
		d.t.Errorf("%s ended with %v", name, err)
	}
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
	session := d.client().create("go").GetId()
	kills := 0
	d.oneByOne(session, func(int) {
		server.Kill()
		server.Restart()
		kills++
	})
	c := d.client()
	events, _ := c.idle(session)
	checkTree(t, c.tasks(session), events, 1+12+12*3)
	c.sound()
	if kills < 3 {
		t.Errorf("only %d kills", kills)
	}
}
