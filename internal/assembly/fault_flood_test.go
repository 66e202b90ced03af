package assembly_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestFrozenWatchersHoldNobodyUp has many watch a tree who never read what they
// are sent. The tree grows and others see it; those who thaw see all of it.
//
// No test runs beside it: what it measures is the memory of the whole process.
func TestFrozenWatchersHoldNobodyUp(t *testing.T) {
	a := takeApart(t)
	_, addr := a.orchestrator()
	c := a.client(addr)
	a.worker(addr, slow, nil)
	var frozen []grpc.ServerStreamingClient[pb.WatchSessionResponse]
	session := c.create("").GetId()
	for range 100 {
		stream, err := a.client(addr).WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, IncludeDeltas: true})
		if err != nil {
			t.Fatal(err)
		}
		frozen = append(frozen, stream)
	}
	before := heap()
	turns := often(4, 20)
	for range turns {
		if _, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "go"}}); err != nil {
			t.Fatal(err)
		}
		c.wait(session, "")
	}
	each := (int64(heap()) - int64(before)) / int64(len(frozen))
	events, _ := c.idle(session)
	last := events[len(events)-1].GetSeq()
	for _, stream := range frozen {
		next := int64(1)
		for next <= last {
			resp, err := stream.Recv()
			if err != nil {
				t.Fatalf("after event %d: %v", next-1, err)
			}
			if e := resp.GetEvent(); e != nil {
				if e.GetSeq() != next {
					t.Fatalf("event %d came as number %d", e.GetSeq(), next)
				}
				next++
			}
		}
	}
	t.Logf("%d frozen watchers, %d events; client and server together hold %d KiB for each", len(frozen), len(events), each>>10)
	if each > 1<<20 {
		t.Errorf("each frozen watcher holds %d KiB", each>>10)
	}
}

// heap is how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestAFloodOfDeltasWaitsForNobody has a worker send text as fast as it can and
// read nothing: it is taken as fast, and what counts still gets through.
func TestAFloodOfDeltasWaitsForNobody(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	run := c.first()
	h := c.hand()
	if !h.claim(run) {
		t.Fatal("the claim was refused")
	}
	text := strings.Repeat("many words ", 400)
	deltas := often(20_000, 500_000)
	begun := time.Now()
	for range deltas {
		h.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Delta{Delta: &pb.TextDelta{Text: text}}})
	}
	last := ending("heard")
	last.Seq = 1
	h.send(last)
	if root := c.wait(run.session, ""); root.GetResult() != "heard" {
		t.Errorf("the root ended %s with %q", root.GetState(), root.GetResult())
	}
	t.Logf("%d deltas of %d bytes in %s", deltas, len(text), time.Since(begun))
}

// TestAWorkerThatNeverReadsLosesItsRun has a worker ask on and on without a look at
// the answers, the first of which is too long to be under way as a whole: it is
// shown the door, and its run goes elsewhere.
func TestAWorkerThatNeverReadsLosesItsRun(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	for range often(2, 50) {
		run := c.first()
		deaf := c.hand()
		if !deaf.claim(run) {
			t.Fatal("the claim was refused")
		}
		if resp := deaf.ask(calling("ls", `{}`)); resp.GetAck() == nil {
			t.Fatalf("the message was answered with %v", resp)
		}
		if _, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{
			SessionId: run.session, Message: &pb.UserMessage{Text: strings.Repeat("x", 1<<20)},
		}); err != nil {
			t.Fatal(err)
		}
		last := closing(0, "nothing")
		last.Seq = 2
		deaf.send(last)
		var err error
		for seq := int64(3); seq < 600 && err == nil; seq++ { // 256 may be without an answer
			err = deaf.stream.Send(&pb.WorkRequest{Seq: seq, Kind: &pb.WorkRequest_Progress{Progress: &pb.Progress{Activity: "talking"}}})
		}
		if err != nil && !errors.Is(err, io.EOF) { // the end of the stream
			t.Fatal(err)
		}
		c.events(run.session, func(e *pb.Event) bool {
			return e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED
		})
		other := c.hand()
		if !other.claim(attempt{run.session, run.task, 2, 2}) {
			t.Fatal("the next claim was refused")
		}
		if resp := other.ask(ending("heard")); resp.GetEnded() == nil {
			t.Errorf("the end was answered with %v", resp)
		}
		heard := -1
		for err = nil; err == nil; heard++ {
			_, err = deaf.stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("the stream of the deaf worker ended with %v", err)
		}
		t.Logf("%d answers were under way to the deaf worker", heard)
	}
	c.sound()
}

// TestAnOrchestratorStopsUnderOpenStreams asks one to end while many streams are
// open whose clients do not think of ending them.
func TestAnOrchestratorStopsUnderOpenStreams(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	p, addr := a.orchestrator()
	c := a.client(addr)
	session := c.create("").GetId()
	streams := often(200, 1000)
	var open []grpc.ClientStream
	for i := range streams {
		var stream grpc.ClientStream
		var err error
		if i%2 == 0 {
			stream, err = c.work.Work(c.ctx())
		} else {
			stream, err = c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(first(i)); err != nil {
			t.Fatal(err)
		}
		open = append(open, stream)
	}
	begun := time.Now()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	t.Logf("%d open streams, stopped within %s", streams, time.Since(begun))
	for i, stream := range open {
		var err error
		for err == nil {
			err = stream.RecvMsg(first(i))
		}
		if status.Code(err) != codes.Unavailable && !errors.Is(err, io.EOF) {
			t.Errorf("a stream ended with %v", err)
		}
	}
}

// first is what a stream of the test gives.
func first(i int) any {
	if i%2 == 0 {
		return &pb.WorkResponse{}
	}
	return &pb.WatchSessionResponse{}
}

// TestHugeThingsAreBounded has an agent read a huge file, and a client say too much.
func TestHugeThingsAreBounded(t *testing.T) {
	t.Parallel()
	const huge = 64 << 20
	dir := t.TempDir()
	for name, text := range map[string]string{"line": strings.Repeat("x", huge), "lines": strings.Repeat("needle in hay\n", huge/14)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := setup(t, `
steps:
  - when: {turn: 1}
    calls: [{tool: read, input: {path: line}}, {tool: read, input: {path: lines}}, {tool: grep, input: {pattern: needle}}]
  - text: enough
`, func(d *assembly.Dev) { d.Workspace = dir })
	session := c.create("go").GetId()
	if root := c.wait(session, ""); root.GetResult() != "enough" {
		t.Errorf("the root ended %s with %q: %s", root.GetState(), root.GetResult(), root.GetDetail())
	}
	results := 0
	for _, m := range c.transcript(session, c.root(session)) {
		for _, b := range m.GetBlocks() {
			if r := b.GetToolResult(); r != nil {
				results++
				if n := len(r.GetText()); n > 1<<20 {
					t.Errorf("a result of %d bytes was stored", n)
				}
			}
		}
	}
	if results != 3 {
		t.Errorf("%d results, want 3", results)
	}
	_, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: strings.Repeat("x", huge)}})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("64 MiB said at once: %v", status.Code(err))
	}
	c.sound()
}

// TestClocksOfWorkersDecideNothing has workers whose clocks are an hour early and
// an hour late.
func TestClocksOfWorkersDecideNothing(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	_, addr := a.orchestrator()
	c := a.client(addr)
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		a.worker(addr, slow, func(w *assembly.Worker) {
			w.Now = func() time.Time { return time.Now().Add(off) }
		})
	}
	var growing sync.WaitGroup
	all := make([]watched, 3)
	for i := range all {
		session := c.create("go").GetId()
		growing.Go(func() { all[i] = c.follow(session, func(*pb.Event) {}) })
	}
	growing.Wait()
	c.survived(all)
	if n := len(redelivered(all)); n != 0 {
		t.Errorf("%d runs were redelivered", n)
	}
	workers := map[string]int{} // how much each was given
	for _, w := range all {
		for i, e := range w.events[1:] {
			if d := e.GetDispatched(); d != nil {
				workers[d.GetWorkerId()]++
			}
			if e.GetTime().AsTime().Before(w.events[i].GetTime().AsTime()) {
				t.Errorf("event %d is earlier than the one before", e.GetSeq())
			}
		}
	}
	if len(workers) != 2 {
		t.Errorf("%d workers did it all, want both: %v", len(workers), workers)
	}
	t.Logf("%d trees; deliveries to each worker: %v", len(all), workers)
}
