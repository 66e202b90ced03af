package assembly_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/tree"
)

// otherRelease is a replica of another release, as workers see it: it hands their
// streams on to one of this release and changes what is said on them.
type otherRelease struct {
	pb.UnimplementedWorkerServiceServer
	next    pb.WorkerServiceClient
	welcome func(*pb.Welcome)
	cuts    int64 // so many streams break
	streams atomic.Int64
	claims  atomic.Int64
}

// untilCut is how many answers go over a stream that breaks.
const untilCut = 8

func (o *otherRelease) Work(worker grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]) error {
	breaks := o.streams.Add(1) <= o.cuts
	replica, err := o.next.Work(worker.Context())
	if err != nil {
		return err
	}
	go func() {
		for {
			req, err := worker.Recv()
			if err != nil {
				break
			}
			if req.GetClaim() != nil {
				o.claims.Add(1)
			}
			if takes := req.GetTakes(); takes != nil {
				takes.StandBy = false // it passes over what it does not know
			}
			if replica.Send(req) != nil {
				return // the other direction knows why
			}
		}
		replica.CloseSend()
	}()
	for n := 0; ; n++ {
		resp, err := replica.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case breaks && n == untilCut:
			return status.Error(codes.Unavailable, "cut")
		}
		if w := resp.GetWelcome(); w != nil {
			o.welcome(w)
		}
		if err := worker.Send(resp); err != nil {
			return err
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// withOther starts a replica of this release and one of another, and a worker that
// knows both or only the other.
func withOther(t *testing.T, other *otherRelease, knowsBoth bool) *client {
	t.Helper()
	embedded, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	own, others := listen(t), listen(t)
	conn, err := assembly.Connect(own.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other.next = pb.NewWorkerServiceClient(conn)
	server := grpc.NewServer()
	pb.RegisterWorkerServiceServer(server, other)
	target := others.Addr().String()
	if knowsBoth {
		target += "," + own.Addr().String()
	}
	toBoth, err := assembly.Connect(target)
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := scripted.Parse("scenario.yaml", []byte(threeWide))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return server.Serve(others) })
	running.Go(func() error {
		return assembly.Orchestrator{
			Database: filepath.Join(t.TempDir(), "coppice.db"), Redis: embedded.Client(), Pool: assembly.DefaultPool,
			Limits: tree.DefaultLimits(), Listeners: []net.Listener{own}, Logger: log,
		}.Run(ctx, func() {})
	})
	running.Go(func() error {
		return assembly.Worker{
			Orchestrator: toBoth, Redis: embedded.Client(), Pool: assembly.DefaultPool, Slots: 4,
			Workspace: t.TempDir(), Model: scripted.New(scenario), Logger: log,
		}.Run(ctx)
	})
	t.Cleanup(func() {
		stop()
		server.Stop()
		if err := errors.Join(running.Wait(), toBoth.Close(), conn.Close(), embedded.Close()); err != nil {
			t.Error(err)
		}
	})
	c := newClient(t, conn)
	return c
}

const threeWide = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, for_each: numbers 3, input: {description: c, prompt: 'child {{.Item}}', subagent_type: explore}}]
  - when: {depth: 1, turn: 1..2}
    calls: [{tool: ls, input: {path: .}}]
  - text: done
`

// grows lets a tree grow and holds it against the rules.
func (c *client) grows() []*pb.Event {
	c.t.Helper()
	session := c.create("go").GetId()
	events, _ := c.idle(session)
	all := c.tasks(session)
	if len(all) != 4 {
		c.t.Errorf("%d tasks, want 4", len(all))
	}
	for _, task := range all {
		if task.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
			c.t.Errorf("task %s of agent %s is %s: %s", task.GetId(), task.GetAgent(), task.GetState(), task.GetDetail())
		}
	}
	c.sound()
	return events
}

// TestAReplicaOfTheReleaseBefore has a worker speak to a replica that can neither
// take attempts over nor send heartbeats: a broken stream costs a delivery, and
// nothing else.
func TestAReplicaOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	other := &otherRelease{cuts: 60, welcome: func(w *pb.Welcome) { w.Features, w.Grace, w.OldestProtocol = nil, nil, 0 }}
	c := withOther(t, other, false)
	redelivered := 0
	for redelivered < 2 && other.streams.Load() <= other.cuts {
		for _, e := range c.grows() {
			if e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED {
				redelivered++
			}
		}
	}
	if redelivered == 0 {
		t.Error("no stream was cut under a run")
	}
	t.Logf("%d streams, %d runs delivered again", other.streams.Load(), redelivered)
}

// TestAReplicaOfAnotherProtocol has a worker know a replica with which it has no
// protocol in common, and one of its own.
func TestAReplicaOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	other := &otherRelease{welcome: func(w *pb.Welcome) { w.Protocol, w.OldestProtocol = 99, 98 }}
	c := withOther(t, other, true)
	for other.streams.Load() == 0 {
		c.grows()
	}
	c.grows()
	if n := other.claims.Load(); n != 0 {
		t.Errorf("%d claims were made in a protocol that is not spoken", n)
	}
}

// TestAWorkerOfAnotherProtocol claims in a protocol that nobody speaks here: the
// run stays for a worker that can.
func TestAWorkerOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	c := setup(t, "steps: [{delay: 200ms, text: ok}]", func(d *assembly.Dev) { d.Slots = 1 })
	var sessions []*pb.Session
	for range 8 {
		sessions = append(sessions, c.create("go"))
	}
	stream, err := c.work.Work(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetWelcome() == nil {
		t.Fatalf("the stream starts with %v, %v", first, err)
	}
	last := sessions[len(sessions)-1]
	for range 3 {
		if err := stream.Send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: &pb.Claim{
			SessionId: last.GetId(), TaskId: last.GetRootTaskId(), Epoch: 1, Nonce: 1, WorkerId: "of the future", Protocol: 99,
		}}}); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetRefused().GetCause() != pb.RefusedCause_REFUSED_CAUSE_PROTOCOL {
			t.Fatalf("the claim was answered with %v", resp)
		}
	}
	for _, s := range sessions {
		if root := c.wait(s.GetId(), ""); root.GetResult() != "ok" || root.GetEpoch() != 1 {
			t.Errorf("root %s ended with %q at epoch %d", root.GetId(), root.GetResult(), root.GetEpoch())
		}
	}
}
