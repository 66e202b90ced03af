package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/wire"
)

// window is the maximum number of requests without an answer.
const window = 128

// conn is a slot's connection to the orchestrators: one stream after another. While an attempt is
// in progress, conn also carries the attempt's journal. When a stream breaks, the attempt
// continues: requests queue up until another stream has taken the attempt over.
//
// Requests are sent under sendMu, in the order of their seq. One goroutine receives, and it never
// waits for a sender.
type conn struct {
	client          pb.WorkerServiceClient
	workerID        string // the worker's own id
	hello           *pb.Hello
	drain           func() // called when the orchestrator drains this worker
	isDraining      func() bool
	alivePort       int // where the worker answers liveness checks; 0: nowhere
	log             *slog.Logger
	now             func() time.Time
	reachability    *reachability // told whether streams can be opened
	replicas        *replicaEndpoints
	onWelcome       func(*pb.Welcome) // called for each stream
	window          chan struct{}     // one token for each request in the window without an answer
	secrets         *redact.Redactor  // removed from everything that is sent
	requiredFeature string            // a feature that the replica must have; empty: none

	sendMu    sync.Mutex // held while a request is numbered and sent; locked before mu
	seq       int64
	unsent    []*request // numbered, sent together with what follows
	hasUnsent atomic.Bool

	mu             sync.Mutex
	stream         *workStream    // where requests are sent; nil while not connected
	connected      chan struct{}  // closed while there is a stream
	detached       chan struct{}  // closed when requests no longer go to the current stream
	nextEndpoint   string         // where the next stream should go; empty: anywhere
	closingStreams sync.WaitGroup // streams that are being closed in order
	closed         bool
	attempt        attempt
	attemptOver    bool          // there is no current attempt: new requests fail
	claimPending   bool          // the slot is about to claim the run of a hint
	unanswered     []*request    // in the order in which they were sent
	givenClaim     *request      // stands in for the claim of a run that came with the end of the last one, until takeGivenRun
	standbyRequest *request      // the end of the last attempt, while the slot stands by
	standbyDone    chan struct{} // closed when the slot no longer stands by
}

func (w *Worker) newConn() *conn {
	return &conn{
		client: w.Client, workerID: w.ID, hello: w.hello, drain: w.Drain, isDraining: w.isDraining, alivePort: w.AlivePort, log: w.Logger, now: w.Now, window: make(chan struct{}, window), secrets: w.Secrets,
		connected: make(chan struct{}), detached: make(chan struct{}), attemptOver: true, reachability: &w.reachability, replicas: w.replicas,
		onWelcome: func(welcome *pb.Welcome) { w.installation.set(welcome.GetInstallationId()) },
	}
}

// receive attaches the stream, which takes the current attempt over, and then dispatches responses
// until the stream ends.
func (c *conn) receive(s *workStream) error {
	if err := c.attach(s); err != nil {
		return err
	}
	for {
		resp, err := s.receive()
		if err != nil {
			return err
		}
		for r := range wire.SplitResponses(resp) {
			c.handle(s, r)
		}
	}
}

// handle processes one response.
func (c *conn) handle(s *workStream, resp *pb.WorkResponse) {
	switch kind := resp.GetKind().(type) {
	case *pb.WorkResponse_Heartbeat:
	case *pb.WorkResponse_Lost:
		c.loseAttempt()
	case *pb.WorkResponse_Drain:
		c.drain()
	case *pb.WorkResponse_StoodDown:
		c.endStandby(resp.GetGiven())
	case *pb.WorkResponse_BackgroundCommands:
		c.requestBackground(int(kind.BackgroundCommands.GetOrdinal()))
	case *pb.WorkResponse_Assignment:
		s.claimAnswered.Store(true)
		c.answerOldest(func(r *request) bool { r.response = resp; return false })
	case *pb.WorkResponse_Transcript:
		c.answerOldest(func(r *request) bool {
			r.transcriptParts = append(r.transcriptParts, kind.Transcript.GetMessages()...)
			return kind.Transcript.GetLast()
		})
	default:
		if r := resp.GetRefused(); r != nil && r.GetCause() != pb.RefusedCause_REFUSED_CAUSE_PROTOCOL {
			s.claimAnswered.Store(true)
		}
		c.answerOldest(func(r *request) bool { r.response = resp; return true })
	}
}

// errOtherReplicaWanted ends a new stream if the next claim turned out to be for another replica
// while the stream was opened.
var errOtherReplicaWanted = errors.New("the next claim is for another replica")

// attach makes a stream the current one. If an attempt is in progress or the slot stands by, the
// orchestrator first has to confirm that it continues. Then all unanswered requests are sent
// again.
func (c *conn) attach(s *workStream) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.mu.Lock()
	on, unanswered, claim, standby := !c.attemptOver, c.unanswered, c.attempt.claim, c.standbyRequest
	c.mu.Unlock()
	switch {
	case standby != nil:
		answer, err := c.reattach(s, claim, standby)
		if err != nil {
			return err
		}
		c.endStandby(answer.GetGiven())
	case on && !(len(unanswered) > 0 && unanswered[0].req.GetClaim() != nil):
		var last *request
		if n := len(unanswered); n > 0 {
			last = unanswered[n-1]
		}
		answer, err := c.reattach(s, claim, last)
		if err != nil {
			return err
		}
		if answer.GetReattached() == nil {
			c.endLostAttempt(answer.GetGiven())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("the slot has ended")
	}
	if c.nextEndpoint != "" && c.nextEndpoint != s.endpoint {
		return errOtherReplicaWanted
	}
	c.nextEndpoint = ""
	c.clearUnsent() // unsent requests are among the unanswered ones
	for _, r := range c.unanswered {
		r.transcriptParts, r.req.Shows = nil, nil
		if c := r.req.GetClaim(); c != nil {
			c.Protocol = s.protocol
		}
		if err := s.send(r.req); err != nil {
			return err
		}
	}
	c.stream = s
	close(c.connected)
	return nil
}

// reattach asks the orchestrator to continue the attempt over a new stream. last is the newest
// unanswered request, or nil. If the attempt ended with that request, the answer may give the slot
// another run.
func (c *conn) reattach(s *workStream, claim *pb.Claim, last *request) (*pb.WorkResponse, error) {
	if !s.features().Has(wire.FeatureReattach) {
		return nil, nil
	}
	offered := uint64(0)
	if last != nil {
		offered = last.req.GetTakes().GetNonce()
	}
	c.mu.Lock()
	known := c.attempt.knownOrdinal
	c.mu.Unlock()
	if err := s.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Reattach{Reattach: &pb.Reattach{
		SessionId: claim.GetSessionId(), TaskId: claim.GetTaskId(),
		Epoch: claim.GetEpoch(), Nonce: claim.GetNonce(), KnownOrdinal: known, Features: wire.WorkerFeatures(),
		WorkerId: c.workerID, AlivePort: uint32(c.alivePort), TakesNonce: offered,
	}}}); err != nil {
		return nil, err
	}
	for {
		resp, err := s.receive()
		switch {
		case err != nil:
			return nil, err
		case resp.GetHeartbeat() != nil:
			continue
		case resp.GetDrain() != nil:
			c.drain()
			continue
		}
		s.claimAnswered.Store(true)
		return resp, nil
	}
}

// detach stops sending requests to a stream.
func (c *conn) detach(s *workStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == s {
		c.detachLocked()
	}
}

// detachLocked requires a current stream. The caller holds mu.
func (c *conn) detachLocked() {
	close(c.detached)
	c.stream, c.connected, c.detached = nil, make(chan struct{}), make(chan struct{})
}

// cancelStream cancels the current stream without closing it in order. Everything in progress on
// it is void, and another stream is opened.
func (c *conn) cancelStream() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.stream.cancel()
	}
}

// close ends the current attempt and prevents further ones.
func (c *conn) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.loseAttempt()
}

// waitConnected waits for a stream. It returns false if ctx ends first.
func (c *conn) waitConnected(ctx context.Context) bool {
	c.mu.Lock()
	up := c.connected
	c.mu.Unlock()
	select {
	case <-up:
		return true
	case <-ctx.Done():
		return false
	}
}

// currentReplica returns the replica that requests go to, and a channel that is closed when that
// changes.
func (c *conn) currentReplica() (replica string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		return "", c.connected
	}
	return c.stream.welcome.GetReplicaId(), c.detached
}

// detachIfIdle stops sending requests to a stream if the connection is idle: no attempt, no
// standby, and no claim about to be sent. It reports whether it did.
func (c *conn) detachIfIdle(s *workStream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != s || !c.attemptOver || c.standbyRequest != nil || c.claimPending {
		return false
	}
	c.detachLocked()
	return true
}

// canJoinDeltas reports whether the replica accepts text deltas inside other requests.
func (c *conn) canJoinDeltas() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream != nil && c.stream.features().Has(wire.FeatureJoined)
}

// sendHeartbeat keeps a stream alive, also while the answer to a reattachment is awaited and no
// other request may be sent. The first one after the worker began to drain says so.
func (c *conn) sendHeartbeat(s *workStream) {
	err := s.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Heartbeat{Heartbeat: &pb.Heartbeat{}}})
	if err == nil && c.isDraining() && !s.saidDraining.Swap(true) {
		hello := proto.CloneOf(c.hello)
		hello.Draining = true
		err = s.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Hello{Hello: hello}})
	}
	if err != nil {
		s.cancel()
	}
}
