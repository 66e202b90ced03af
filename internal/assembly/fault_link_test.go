package assembly_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/chaos"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
)

// link puts a proxy before an address.
func link(t *testing.T, target string) *chaos.Link {
	t.Helper()
	l, err := chaos.OpenLink(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestCutStreamsLoseNothing breaks the worker's connections over and over, at the
// edge of a message and in the middle of one, while trees grow.
func TestCutStreamsLoseNothing(t *testing.T) {
	t.Parallel()
	a, c, addr := alone(t)
	between := link(t, addr)
	a.worker(between.Addr(), slow, nil)
	rng := rand.New(rand.NewPCG(12, 12))
	broken := 0
	all := c.storm(often(20, 500), 25, func(i int) {
		if i%2 == 0 {
			between.Set(chaos.Conditions{})
			broken += between.Cut()
			return
		}
		between.Set(chaos.Conditions{Cut: roomToReattach + rng.Int64N(roomToReattach)})
	})
	c.survived(all)
	if broken == 0 {
		t.Error("nothing was cut")
	}
	t.Logf("%d trees, %d connections cut by hand; %d runs were redelivered", len(all), broken, len(redelivered(all)))
}

// roomToReattach is how many bytes get through before a connection breaks: enough
// to go on with something on it.
const roomToReattach = 40_000

// TestABlackHoledLinkIsLeft lets nothing pass any more between a worker and one of
// two replicas: the runs go on over the other one.
func TestABlackHoledLinkIsLeft(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.database = pgtest.Start(t).Database(t)
	_, one := a.orchestrator()
	_, two := a.orchestrator()
	links := []*chaos.Link{link(t, one), link(t, two)}
	a.worker(links[0].Addr()+","+links[1].Addr(), slow, nil)
	c := a.client(one + "," + two)
	holes := often(2, 20)
	var back figures
	var all []watched
	for i := range holes {
		var since time.Time
		seen := 0
		all = append(all, c.follow(c.create("go").GetId(), func(e *pb.Event) {
			if seen++; seen == 40 {
				links[i%2].Set(chaos.BlackHole())
				since = time.Now()
			}
			if seen > 40 && e.GetMessage() != nil {
				back = append(back, e.GetTime().AsTime().Sub(since))
			}
		}))
		links[i%2].Set(chaos.Conditions{})
		if since.IsZero() || len(back) == 0 || back[len(back)-1] < 0 {
			t.Errorf("hole %d: nothing happened after it", i)
		}
	}
	c.survived(all)
	again := len(redelivered(all))
	t.Logf("%d trees; %d runs were redelivered; messages after %s", len(all), again, back)
}

// TestSilenceIsNoOffence lets nobody say anything over connections for longer than it takes a
// server that suffers no pings to send a client away with all its streams: a watch goes on,
// and calls are taken.
func TestSilenceIsNoOffence(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	_, addr := a.orchestrator()
	silent, streaming := a.connect(addr), a.connect(addr)
	for _, conn := range []*grpc.ClientConn{silent, streaming} {
		c := newClient(t, conn)
		if _, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	c := newClient(t, streaming)
	session, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := c.WatchSession(t.Context(), &pb.WatchSessionRequest{SessionId: session.GetSession().GetId(), AfterSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		_, err := watch.Recv()
		said <- err
	}()
	select {
	case err := <-said:
		t.Fatalf("a silent watch was told something, or has ended: %v", err)
	case <-time.After(time.Duration(often(1, 13)) * suspicious):
	}
	for _, conn := range []*grpc.ClientConn{silent, streaming} {
		c := newClient(t, conn)
		if _, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.UpdateSession(c.ctx(), &pb.UpdateSessionRequest{SessionId: session.GetSession().GetId(), Title: "another"}); err != nil {
		t.Fatal(err)
	}
	if err := <-said; err != nil {
		t.Errorf("a silent watch ended: %v", err)
	}
}

// suspicious is after how long gRPC's own defaults end the connection of a client
// that pings as often as ours do.
const suspicious = 45 * time.Second

// TestASlowLinkCarriesLargeMessages: a prompt and an answer each take longer over the worker's link
// than a side waits for one that is silent.
func TestASlowLinkCarriesLargeMessages(t *testing.T) {
	t.Parallel()
	a, c, addr := alone(t)
	between := link(t, addr)
	between.Set(chaos.Conditions{Rate: 150 << 10})
	a.worker(between.Addr(), `steps: [{text: '{{.Prompt}}'}]`, nil)
	session := c.create(strings.Repeat("a long prompt ", 50<<10))
	root := c.wait(session.GetId(), "")
	if root.GetState() != pb.TaskState_TASK_STATE_COMPLETED || root.GetEpoch() != 1 {
		t.Errorf("epoch %d is %s: %s", root.GetEpoch(), root.GetState(), root.GetDetail())
	}
}
