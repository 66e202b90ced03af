package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// window is how many requests may be without an answer.
const window = 128

// line is a slot's way to the orchestrators: one stream after another and, while
// an attempt is on it, the attempt's journal. When a stream breaks, the attempt
// goes on: requests queue up until another stream has taken it over.
//
// Requests go out under a lock, in the order of their seq; one goroutine receives
// and never waits for anyone.
type conn struct {
	client          pb.WorkerServiceClient
	workerID        string // whose line it is
	hello           *pb.Hello
	drain           func() // the worker is to take no run any more
	alivePort       int    // the port where that tells that it lives; 0: nowhere
	log             *slog.Logger
	now             func() time.Time
	reachability    *reachability // whether there are streams
	replicas        *replicaEndpoints
	onWelcome       func(*pb.Welcome) // called for each stream
	window          chan struct{}     // one for each counted request without an answer
	secrets         *redact.Redactor  // what goes out is without them
	requiredFeature string            // a feature that a replica has to have; empty: none

	sendMu    sync.Mutex // held while a request is numbered and sent; taken before mu
	seq       int64
	unsent    []*request // numbered, to be sent with what follows
	hasUnsent atomic.Bool

	mu             sync.Mutex
	stream         *workStream   // what requests go over; nil while there is none
	connected      chan struct{} // closed while there is one
	detached       chan struct{} // closed when requests go over that no longer
	nextEndpoint   string        // the endpoint that the next link is to go to; empty: any
	closingStreams sync.WaitGroup
	closed         bool
	attempt        attempt
	attemptOver    bool          // it is not on the line any more: new requests fail
	claimPending   bool          // there is a hint for the line, whose run it is about to claim
	unanswered     []*request    // without an answer
	givenClaim     *request      // stands for the claim of the attempt, if that came with the end of the last; until it is taken up
	standbyRequest *request      // the end of the last attempt, if the line waits for a run of the orchestrator's choice
	standbyDone    chan struct{} // closed when it does so no longer
}

// attempt is what a line knows of the attempt on it, or of the last one.
type attempt struct {
	number       int                // counts them: a journal is of one
	claim        *pb.Claim          // with which it began
	heldMessages []tree.Message     // what was held of its transcript
	knownOrdinal int32              // the ordinal of the last message that it knows of
	toBackground chan int           // messages whose commands are to go on in the background
	onLost       context.CancelFunc // tells who carries it out that it is lost; nil: nobody does yet
}

// begin puts an attempt on the line, unless that is closed. It needs the lock.
func (c *conn) beginAttempt(claim *pb.Claim, held []tree.Message, drop context.CancelFunc) {
	c.attempt = attempt{number: c.attempt.number + 1, claim: claim, heldMessages: held, toBackground: make(chan int, 1), onLost: drop}
	c.attemptOver, c.claimPending = c.closed, false
}

// goOn puts an attempt on the line that is this worker's already. drop is called when
// it is lost.
func (c *conn) beginClaimed(drop context.CancelFunc, claim *pb.Claim) *journal {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginAttempt(claim, nil, drop)
	return newJournal(c)
}

// request is one request under way.
type request struct {
	conn            *conn
	req             *pb.WorkRequest
	answered        chan struct{}
	inWindow        bool // it has a place in the window: all have but the claim of a run that was given
	response        *pb.WorkResponse
	transcriptParts []*pb.Message  // of a claim: the transcript so far, after what is held
	heldMessages    []tree.Message // of an end: what is held of the transcript that may be next
	err             error
}

// assignment is a granted claim with its whole transcript: how it begins, and what was
// sent of it.
type assignment struct {
	*pb.Assignment
	heldMessages []tree.Message
	sentMessages []*pb.Message
}

// refusal is a claim that was not granted.
type refusal struct{ cause pb.RefusedCause }

func (r *refusal) Error() string { return "the claim was refused: " + r.cause.String() }

func (w *Worker) newConn() *conn {
	return &conn{
		client: w.Client, workerID: w.ID, hello: w.hello, drain: w.Drain, alivePort: w.AlivePort, log: w.Logger, now: w.Now, window: make(chan struct{}, window), secrets: w.Secrets,
		connected: make(chan struct{}), detached: make(chan struct{}), attemptOver: true, reachability: &w.reachability, replicas: w.replicas,
		onWelcome: func(welcome *pb.Welcome) { w.installation.set(welcome.GetInstallationId()) },
	}
}

// receive takes the attempt over to the stream, if there is one, and then hands
// answers to their requests until the stream ends.
func (c *conn) receive(s *workStream) error {
	if err := c.attach(s); err != nil {
		return err
	}
	for {
		resp, err := s.receive(c.now)
		if err != nil {
			return err
		}
		for r := range wire.Apart(resp) {
			c.handle(s, r)
		}
	}
}

// hear sees to one response.
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

// errElsewhere ends a stream that has been opened while it became known where it is to go.
var errOtherReplicaWanted = errors.New("the next claim is for another replica")

// adopt makes requests go over a stream. What is without an answer is sent again,
// once the orchestrator has said that the attempt goes on.
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
	c.clearUnsent() // it is among what has no answer
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

// reattach asks for the attempt to go on over a stream. If it has ended with the last request,
// if there is one, the answer may give the slot another run.
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
		resp, err := s.receive(c.now)
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

// takeDown makes requests go over a stream no longer.
func (c *conn) detach(s *workStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == s {
		c.detachLocked()
	}
}

// down is for a line that has a stream. It needs the lock.
func (c *conn) detachLocked() {
	close(c.detached)
	c.stream, c.connected, c.detached = nil, make(chan struct{}), make(chan struct{})
}

// retire ends the stream in use without a word, so that what is under way on it
// is void; another one is opened.
func (c *conn) cancelStream() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.stream.cancel()
	}
}

// close ends the attempt on the line, and lets no other begin.
func (c *conn) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.loseAttempt()
}

// ready waits for a stream, and reports false if ctx ends first.
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

// at gives the replica that requests go to, and what is closed once that has changed.
func (c *conn) currentReplica() (replica string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		return "", c.connected
	}
	return c.stream.welcome.GetReplicaId(), c.detached
}

func (c *conn) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attemptOver
}

// rest makes requests go over a stream no longer if the line is idle, waits for nothing over it,
// and is not about to claim a run; it reports whether it did.
func (c *conn) detachIfIdle(s *workStream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != s || !c.attemptOver || c.standbyRequest != nil || c.claimPending {
		return false
	}
	c.detachLocked()
	return true
}

// joins reports whether what is shown may go with what is said next.
func (c *conn) canJoinDeltas() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream != nil && c.stream.features().Has(wire.FeatureJoined)
}

// carries reports whether the attempt of a journal is on the line.
func (c *conn) isCurrent(j *journal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.attemptOver && c.attempt.number == j.attemptNumber
}

// session is that of the attempt on the line.
func (c *conn) sessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempt.claim.GetSessionId()
}

// releases tells of messages whose commands are to go on in the background.
func (c *conn) backgroundRequests() <-chan int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempt.toBackground
}

// letGo tells the attempt on the line that the commands of a message are to go on in
// the background. It never waits: only the last message counts.
func (c *conn) requestBackground(ordinal int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt.toBackground == nil {
		return
	}
	select {
	case <-c.attempt.toBackground:
	default:
	}
	c.attempt.toBackground <- ordinal
}

// beat tells the other side of a stream that this one is there, also while nothing else may be sent
// as the answer to a reattachment is waited for.
func (c *conn) sendHeartbeat(s *workStream) {
	if s.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Heartbeat{Heartbeat: &pb.Heartbeat{}}}) != nil {
		s.cancel()
	}
}
