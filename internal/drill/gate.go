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

// Gate is a proxy between a worker and its orchestrator. It forwards all messages, counts the
// steps, and injects the fault at its moment.
type Gate struct {
	pb.UnimplementedWorkerServiceServer
	orchestrator pb.WorkerServiceClient
	fault        *Fault       // nil: no fault
	inject       func(Victim) // injects the fault, except that the gate itself cuts links

	mu        sync.Mutex
	counts    StepCounts
	due       bool       // the step of the fault has come
	injection *Injection // nil: the fault has not happened
	unknown   map[call]string
	cuts      map[*proxiedStream]func()
}

// Injection is a fault that has happened.
type Injection struct {
	Agent string // agent whose step it was; empty: unknown
}

// call is a tool call that a lost worker had started.
type call struct {
	task  string
	block int32
}

func newGate(orchestrator pb.WorkerServiceClient, fault *Fault, strike func(Victim)) *Gate {
	return &Gate{
		orchestrator: orchestrator, fault: fault, inject: strike,
		unknown: map[call]string{}, cuts: map[*proxiedStream]func(){},
	}
}

// StepCounts returns the number of steps up to the fault.
func (g *Gate) StepCounts() StepCounts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts
}

// Injected returns the fault; nil if it has not happened.
func (g *Gate) Injected() *Injection {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.injection
}

// Unknown returns the tool names of the calls whose outcome is unknown because their worker was
// lost while they ran. There is one name per call.
func (g *Gate) Unknown() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	tools := make([]string, 0, len(g.unknown))
	for _, tool := range g.unknown {
		tools = append(tools, tool)
	}
	return tools
}

// Work forwards one stream.
func (g *Gate) Work(worker grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]) error {
	ctx, cut := context.WithCancel(worker.Context())
	defer cut()
	orchestrator, err := g.orchestrator.Work(ctx)
	if err != nil {
		return err
	}
	l := &proxiedStream{gate: g, worker: worker, orchestrator: orchestrator}
	defer g.register(l, cut)()
	go func() { // until the stream has ended, with this call or before
		if !l.forwardRequests() {
			cut()
		}
	}()
	if err := l.forwardResponses(); ctx.Err() == nil {
		return err
	}
	return ctx.Err() // it was cut
}

// register adds a stream until closed is called.
func (g *Gate) register(l *proxiedStream, cut func()) (closed func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cuts[l] = cut
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.cuts, l)
	}
}

// isDueAt counts the step that a request is and reports whether it is the step of the fault.
func (g *Gate) isDueAt(req *pb.WorkRequest) bool {
	step, is := stepOf(req)
	return is && (step != Claim || g.countsAsked()) && g.isDue(step)
}

// isDueAtGrant counts a claim that was granted and reports whether it is the step of the fault.
func (g *Gate) isDueAtGrant() bool { return !g.countsAsked() && g.isDue(Claim) }

// countsAsked reports whether a claim counts when a worker asks for it. Otherwise it counts when
// it is granted: one that is refused is no step.
func (g *Gate) countsAsked() bool {
	return g.fault != nil && g.fault.Moment.Step == Claim && !g.fault.Moment.After
}

// isDue counts a step and reports whether it is the step of the fault.
func (g *Gate) isDue(step Step) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.due {
		return false
	}
	g.counts[step]++
	g.due = g.fault != nil && g.fault.Moment.Step == step && g.fault.Moment.N == g.counts[step]
	return g.due
}

// injectAt injects the fault at a step of an agent. It reports whether all streams were cut.
func (g *Gate) injectAt(agent string) (cut bool) {
	g.inject(g.fault.Victim)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.injection = &Injection{Agent: agent}
	if g.fault.Victim == Redis {
		return false
	}
	for _, cut := range g.cuts {
		cut()
	}
	return true
}

// proxiedStream is the stream of one slot.
type proxiedStream struct {
	gate         *Gate
	worker       grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]
	orchestrator grpc.BidiStreamingClient[pb.WorkRequest, pb.WorkResponse]

	mu       sync.Mutex
	agent    string
	claiming bool // a claim has no response yet
	awaiting bool // the fault happens at the response to the request with this seq
	seq      int64
	opened   []call
}

// forwardRequests forwards the worker's requests until it closes its side. It returns false if
// the stream is broken.
func (l *proxiedStream) forwardRequests() bool {
	for {
		req, err := l.worker.Recv()
		if errors.Is(err, io.EOF) {
			return l.orchestrator.CloseSend() == nil
		}
		if err != nil {
			return false
		}
		if offered := req.GetTakes(); offered != nil {
			offered.StandBy = false // a run that arrives this way would come at no step of a worker
		}
		if req.GetClaim() != nil {
			l.setClaiming()
		}
		switch due := l.gate.isDueAt(req); {
		case due && l.gate.fault.Moment.After:
			l.awaitResponse(req.GetSeq())
		case due:
			l.gate.injectAt(l.currentAgent())
			return false
		}
		if err := l.orchestrator.Send(req); err != nil {
			return false
		}
	}
}

// currentAgent returns the agent of the run on this stream, or "".
func (l *proxiedStream) currentAgent() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.agent
}

func (l *proxiedStream) setClaiming() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claiming = true
}

func (l *proxiedStream) awaitResponse(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaiting, l.seq = true, seq
}

// forwardResponses forwards the orchestrator's responses until it ends the stream or the stream
// is cut.
func (l *proxiedStream) forwardResponses() error {
	for {
		resp, err := l.orchestrator.Recv()
		if err != nil {
			return err
		}
		for r := range wire.SplitResponses(resp) {
			if l.observe(r) && l.gate.injectAt(l.currentAgent()) {
				return context.Canceled
			}
		}
		if err := l.worker.Send(resp); err != nil {
			return err
		}
	}
}

// observe inspects a response and reports whether the fault waits for it.
func (l *proxiedStream) observe(resp *pb.WorkResponse) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch k := resp.GetKind().(type) {
	case *pb.WorkResponse_Assignment:
		l.noteAssignment(k.Assignment)
		if l.claiming { // otherwise it was given at another step
			l.claiming = false
			return l.gate.isDueAtGrant()
		}
	case *pb.WorkResponse_Refused:
		l.claiming = false
	case *pb.WorkResponse_Transcript:
		l.gate.noteUnknown(l.opened, k.Transcript)
	}
	if !l.awaiting || resp.GetSeq() != l.seq {
		return false
	}
	l.awaiting = false
	return true
}

// noteAssignment records the agent of the run, and the calls that a lost worker had started.
func (l *proxiedStream) noteAssignment(a *pb.Assignment) {
	l.agent, l.opened = a.GetTask().GetAgent(), nil
	for _, c := range a.GetOpenCalls() {
		if c.GetState() == pb.CallState_CALL_STATE_STARTED {
			l.opened = append(l.opened, call{a.GetTask().GetId(), c.GetBlock()})
		}
	}
}

// noteUnknown records calls with an unknown outcome, with the tool names from the last
// assistant message of a transcript.
func (g *Gate) noteUnknown(calls []call, chunk *pb.TranscriptChunk) {
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
