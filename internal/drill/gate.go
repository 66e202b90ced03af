package drill

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// Gate is what a worker takes for its orchestrator: it hands on all that both say, counts the
// steps, and strikes when the moment has come.
type Gate struct {
	pb.UnimplementedWorkerServiceServer
	orchestrator pb.WorkerServiceClient
	fault        *Fault       // nil: none
	strike       func(Victim) // breaks it; the gate cuts links itself

	mu      sync.Mutex
	seen    Seen
	due     bool    // the step has come at which the fault happens
	struck  *Struck // nil: it has not happened
	unknown map[call]string
	cuts    map[*line]func()
}

// Struck is a fault that has happened.
type Struck struct {
	Agent string // whose step it was; empty: not known
}

// call is one that a worker has left behind.
type call struct {
	task  string
	block int32
}

func newGate(orchestrator pb.WorkerServiceClient, fault *Fault, strike func(Victim)) *Gate {
	return &Gate{
		orchestrator: orchestrator, fault: fault, strike: strike,
		unknown: map[call]string{}, cuts: map[*line]func(){},
	}
}

// Seen counts the steps, up to the fault.
func (g *Gate) Seen() Seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// Struck tells of the fault; nil if it has not happened.
func (g *Gate) Struck() *Struck {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.struck
}

// Unknown names the tools of calls of which nobody knows what they have done, since their
// worker was lost in the middle: a name for each call.
func (g *Gate) Unknown() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	tools := make([]string, 0, len(g.unknown))
	for _, tool := range g.unknown {
		tools = append(tools, tool)
	}
	return tools
}

// Work carries one line.
func (g *Gate) Work(worker grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]) error {
	ctx, cut := context.WithCancel(worker.Context())
	defer cut()
	orchestrator, err := g.orchestrator.Work(ctx)
	if err != nil {
		return err
	}
	l := &line{gate: g, worker: worker, orchestrator: orchestrator}
	defer g.open(l, cut)()
	go func() { // until the stream has ended, with this call or before
		if !l.ask() {
			cut()
		}
	}()
	if err := l.answer(); ctx.Err() == nil {
		return err
	}
	return ctx.Err() // it is cut
}

// open adds a line, until close is called.
func (g *Gate) open(l *line, cut func()) (closed func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cuts[l] = cut
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.cuts, l)
	}
}

// now reports whether a request is the step at which the fault happens.
func (g *Gate) now(req *pb.WorkRequest) bool {
	step, is := stepOf(req)
	if !is {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.due {
		return false
	}
	g.seen[step]++
	g.due = g.fault != nil && g.fault.Moment.Step == step && g.fault.Moment.N == g.seen[step]
	return g.due
}

// hit makes the fault happen at a step of an agent, and reports whether that has cut all lines.
func (g *Gate) hit(agent string) (cut bool) {
	g.strike(g.fault.Victim)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.struck = &Struck{Agent: agent}
	if g.fault.Victim == Redis {
		return false
	}
	for _, cut := range g.cuts {
		cut()
	}
	return true
}

// line is that of one slot.
type line struct {
	gate         *Gate
	worker       grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]
	orchestrator grpc.BidiStreamingClient[pb.WorkRequest, pb.WorkResponse]

	mu     sync.Mutex
	agent  string
	await  bool  // the answer to the request with this seq is when the fault happens
	seq    int64 // 0 is that of a claim
	opened []call
}

// ask hands on what the worker says, until it has said all; false if the line is broken.
func (l *line) ask() bool {
	for {
		req, err := l.worker.Recv()
		if errors.Is(err, io.EOF) {
			return l.orchestrator.CloseSend() == nil
		}
		if err != nil {
			return false
		}
		if offered := req.GetTakes(); offered != nil {
			offered.StandBy = false // a run would come at no step of a worker
		}
		switch due := l.gate.now(req); {
		case due && l.gate.fault.Moment.After:
			l.expect(req.GetSeq())
		case due:
			l.gate.hit(l.carries())
			return false
		}
		if err := l.orchestrator.Send(req); err != nil {
			return false
		}
	}
}

// carries gives the agent whose run the line has; empty: none.
func (l *line) carries() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.agent
}

func (l *line) expect(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.await, l.seq = true, seq
}

// answer hands on what the orchestrator says, until it ends the stream or the line is cut.
func (l *line) answer() error {
	for {
		resp, err := l.orchestrator.Recv()
		if err != nil {
			return err
		}
		for r := range wire.SplitResponses(resp) {
			if l.heard(r) && l.gate.hit(l.carries()) {
				return context.Canceled
			}
		}
		if err := l.worker.Send(resp); err != nil {
			return err
		}
	}
}

// heard reads what the orchestrator says, and reports whether it is what the fault waits for.
func (l *line) heard(resp *pb.WorkResponse) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	isClaimed := false
	switch k := resp.GetKind().(type) {
	case *pb.WorkResponse_Assignment:
		isClaimed = true
		l.assigned(k.Assignment)
	case *pb.WorkResponse_Refused:
		isClaimed = true
	case *pb.WorkResponse_Transcript:
		l.gate.left(l.opened, k.Transcript)
	}
	if !l.await || resp.GetSeq() != l.seq || l.seq == 0 && !isClaimed {
		return false
	}
	l.await = false
	return true
}

// assigned notes whose run the line has, and which calls were begun by a worker that is gone.
func (l *line) assigned(a *pb.Assignment) {
	l.agent, l.opened = a.GetTask().GetAgent(), nil
	for _, c := range a.GetOpenCalls() {
		if c.GetState() == pb.CallState_CALL_STATE_STARTED {
			l.opened = append(l.opened, call{a.GetTask().GetId(), c.GetBlock()})
		}
	}
}

// left notes calls that a worker has left behind, with the tools that the last answer of a
// transcript asks for.
func (g *Gate) left(calls []call, chunk *pb.TranscriptChunk) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range chunk.GetMessages() {
		if m.GetRole() != pb.Role_ROLE_ASSISTANT {
			continue
		}
		for _, c := range calls {
			if int(c.block) < len(m.GetBlocks()) {
				g.unknown[c] = m.GetBlocks()[c.block].GetToolUse().GetName()
			}
		}
	}
}
