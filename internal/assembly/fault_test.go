package assembly_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/tree"
)

// often is how many times a fault happens: few by default, and as often as it has
// to be survived with COPPICE_FAULTS=full.
func often(few, full int) int {
	if os.Getenv("COPPICE_FAULTS") == "full" {
		return full
	}
	return few
}

// patiently is the patience with what takes longer the more often it breaks.
func patiently() time.Duration { return time.Duration(often(1, 20)) * patience }

// quiet is a logger that shows a test only what is wrong.
func quiet(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
}

// figures are durations to be logged.
type figures []time.Duration

func (f figures) String() string {
	if len(f) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(f))
	at := func(part int) time.Duration {
		return sorted[min(len(sorted)-1, len(sorted)*part/100)].Round(time.Millisecond)
	}
	return fmt.Sprintf("n %d, p50 %s, p99 %s, most %s", len(f), at(50), at(99), at(100))
}

// part is an orchestrator or a worker in the process of the test.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func (p *part) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// launch runs a part until the test ends, or it is stopped.
func launch(t *testing.T, run func(ctx context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &part{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = run(ctx)
	}()
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return p
}

// apart is orchestrators and workers in the process of the test, each of them
// started by itself and connected over TCP.
type apart struct {
	t        *testing.T
	database string
	redis    *redis.Client
	limits   tree.Limits
	budget   tree.Budget   // of a session, at most
	grace    time.Duration // of orchestrators; 0: their own
	logger   *slog.Logger  // of orchestrators; nil: a quiet one
}

// takeApart gives an installation with a Redis of its own in the process.
func takeApart(t *testing.T) *apart {
	t.Helper()
	embedded, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := embedded.Close(); err != nil {
			t.Error(err)
		}
	})
	return &apart{t: t, database: t.TempDir() + "/coppice.db", redis: embedded.Client(), limits: tree.DefaultLimits()}
}

// orchestrator starts one and says where it listens.
func (a *apart) orchestrator() (*part, string) {
	a.t.Helper()
	return a.orchestratorAt("127.0.0.1:0")
}

func (a *apart) orchestratorAt(address string) (*part, string) {
	a.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		a.t.Fatal(err)
	}
	log := a.logger
	if log == nil {
		log = quiet(a.t)
	}
	served := make(chan struct{})
	p := launch(a.t, func(ctx context.Context) error {
		return assembly.Orchestrator{
			Database: a.database, Redis: a.redis, Pool: assembly.DefaultPool, Limits: a.limits, Budget: a.budget,
			Listeners: []net.Listener{l}, Logger: log, Grace: a.grace,
		}.Run(ctx, func() { close(served) })
	})
	select {
	case <-served:
	case <-p.done:
		a.t.Fatalf("the orchestrator ended: %v", p.err)
	}
	return p, l.Addr().String()
}

// worker starts one that works for the orchestrators of a list. change may be nil.
func (a *apart) worker(orchestrators, scenario string, change func(*assembly.Worker)) *part {
	a.t.Helper()
	played, err := scripted.Parse("scenario.yaml", []byte(scenario))
	if err != nil {
		a.t.Fatal(err)
	}
	conn := a.connect(orchestrators)
	w := assembly.Worker{
		Orchestrator: conn, Redis: a.redis, Pool: assembly.DefaultPool, Slots: 8,
		Workspace: a.t.TempDir(), Model: scripted.New(played), Logger: quiet(a.t),
	}
	if change != nil {
		change(&w)
	}
	return launch(a.t, w.Run)
}

func (a *apart) connect(orchestrators string) *grpc.ClientConn {
	a.t.Helper()
	conn, err := assembly.Connect(orchestrators)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { conn.Close() })
	return conn
}

func (a *apart) client(orchestrators string) *client { return newClient(a.t, a.connect(orchestrators)) }

// watched is what somebody saw who watched a session while things broke.
type watched struct {
	session string
	events  []*pb.Event
	breaks  figures // how long it took until the watch went on, each time it broke
}

// follow watches a session until its root's first run has ended, and calls each for
// every event.
func (c *client) follow(session string, each func(*pb.Event)) watched {
	c.t.Helper()
	root := ""
	return c.watch(session, func(e *pb.Event) (enough bool) {
		if s := e.GetStarted(); s != nil && s.GetDepth() == 0 {
			root = e.GetTaskId()
		}
		each(e)
		return e.GetResult() != nil && e.GetTaskId() == root
	})
}

// watch watches a session until see has seen enough. A watch that breaks goes on from
// where it left off, over whichever replica answers, as any client's does.
func (c *client) watch(session string, see func(*pb.Event) (enough bool)) watched {
	c.t.Helper()
	w := watched{session: session}
	var broke time.Time
	ctx, cancel := context.WithTimeoutCause(c.t.Context(), patiently(), errors.New("no end is seen"))
	defer cancel()
	for {
		stream, err := c.WatchSession(ctx, &pb.WatchSessionRequest{
			SessionId: session, AfterSeq: int64(len(w.events)),
		})
		for err == nil {
			var resp *pb.WatchSessionResponse
			if resp, err = stream.Recv(); err != nil {
				break
			}
			if from, ok := peer.FromContext(stream.Context()); ok {
				c.server.Store(from.Addr.String())
			}
			if !broke.IsZero() {
				w.breaks, broke = append(w.breaks, time.Since(broke)), time.Time{}
			}
			e := resp.GetEvent()
			if e.GetSeq() != int64(len(w.events)+1) {
				c.t.Fatalf("event %d came as number %d", e.GetSeq(), len(w.events)+1)
			}
			w.events = append(w.events, e)
			if see(e) {
				return w
			}
		}
		if ctx.Err() != nil {
			c.t.Fatalf("session %s after %d events: %v, %v\n%v", session, len(w.events), context.Cause(ctx), err, w.events)
		}
		if !errors.Is(err, io.EOF) && status.Code(err) != codes.Unavailable {
			c.t.Fatalf("session %s after %d events: %v", session, len(w.events), err)
		}
		if broke.IsZero() {
			broke = time.Now()
		}
	}
}

// storm grows trees one after another, and strikes each time the newest has come
// every events further, until it has struck n times.
func (c *client) storm(n, every int, strike func(i int)) []watched {
	c.t.Helper()
	var all []watched
	for struck := 0; struck < n; {
		seen := 0
		all = append(all, c.follow(c.create("go").GetId(), func(*pb.Event) {
			if seen++; seen%every == 0 && struck < n {
				strike(struck)
				struck++
			}
		}))
	}
	return all
}

// slowNodes is how many tasks a tree of the scenario slow has.
const slowNodes = 1 + 12 + 12*3

// survived holds what a storm has left against what was seen in it: nothing that
// was seen has changed, all is finished and in order.
func (c *client) survived(all []watched) (breaks figures) {
	c.t.Helper()
	for _, w := range all {
		events, _ := c.idle(w.session)
		if len(events) < len(w.events) {
			c.t.Fatalf("%d events were seen, there are %d", len(w.events), len(events))
		}
		for i, e := range w.events {
			if !proto.Equal(e, events[i]) {
				c.t.Errorf("event %d was %v, is %v", i+1, e, events[i])
			}
		}
		checkTree(c.t, c.tasks(w.session), events, slowNodes)
		checkDeliveries(c.t, events)
		breaks = append(breaks, w.breaks...)
	}
	c.sound()
	return breaks
}

// checkDeliveries: no delivery went to two workers.
func checkDeliveries(t *testing.T, events []*pb.Event) {
	t.Helper()
	type delivery struct {
		task  string
		epoch int64
	}
	given := map[delivery]string{}
	for _, e := range events {
		if d := e.GetDispatched(); d != nil {
			key := delivery{e.GetTaskId(), d.GetEpoch()}
			if other, twice := given[key]; twice {
				t.Errorf("delivery %d of task %s went to %s and to %s", d.GetEpoch(), e.GetTaskId(), other, d.GetWorkerId())
			}
			given[key] = d.GetWorkerId()
		}
	}
}

// redelivered gives the events that say that a run was offered again.
func redelivered(all []watched) []*pb.Event {
	var found []*pb.Event
	for _, w := range all {
		for _, e := range w.events {
			if e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED {
				found = append(found, e)
			}
		}
	}
	return found
}

// ids are what differs between two runs of the same tree; the scripted model
// guesses tokens from a text's length, also from that of the times in it.
var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"duration_ms":\d+|"\w*tokens":\d+`)

// said is all conversations of a session, without ids and times, sorted.
func (c *client) said(session string) string {
	c.t.Helper()
	var all []string
	for _, task := range c.tasks(session) {
		var b strings.Builder
		for _, m := range c.transcript(session, task.GetId()) {
			fmt.Fprintf(&b, "%s:", m.GetRole())
			for _, block := range m.GetBlocks() {
				switch {
				case block.GetToolUse() != nil:
					fmt.Fprintf(&b, " call %s %s", block.GetToolUse().GetName(), block.GetToolUse().GetInputJson())
				case block.GetToolResult() != nil:
					fmt.Fprintf(&b, " result %d %t %s", block.GetToolResult().GetBlock(), block.GetToolResult().GetIsError(), block.GetToolResult().GetText())
				default:
					fmt.Fprintf(&b, " %s", block.GetText().GetText())
				}
			}
			b.WriteByte('\n')
		}
		all = append(all, ids.ReplaceAllString(b.String(), "…"))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
