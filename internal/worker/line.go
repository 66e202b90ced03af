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
type line struct {
	client   pb.WorkerServiceClient
	worker   string // whose line it is
	hello    *pb.Hello
	drain    func() // the worker is to take no run any more
	alive    int    // the port where that tells that it lives; 0: nowhere
	log      *slog.Logger
	now      func() time.Time
	reach    *reach // whether there are streams
	replicas *replicas
	welcome  func(*pb.Welcome) // called for each stream
	window   chan struct{}     // one for each counted request without an answer
	secrets  *redact.Redactor  // what goes out is without them
	needs    string            // a feature that a replica has to have; empty: none

	sending   sync.Mutex // held while a request is numbered and sent; taken before mu
	seq       int64
	unsent    []*request // numbered, to be sent with what follows
	hasUnsent atomic.Bool

	mu        sync.Mutex
	link      *link         // what requests go over; nil while there is none
	up        chan struct{} // closed while there is one
	moved     chan struct{} // closed when requests go over that no longer
	toward    string        // the endpoint that the next link is to go to; empty: any
	leaving   sync.WaitGroup
	closed    bool
	attempt   attempt
	over      bool          // it is not on the line any more: new requests fail
	claims    bool          // there is a hint for the line, whose run it is about to claim
	waiting   []*request    // without an answer
	unclaimed *request      // stands for the claim of the attempt, if that came with the end of the last; until it is taken up
	stands    *request      // the end of the last attempt, if the line waits for a run of the orchestrator's choice
	stood     chan struct{} // closed when it does so no longer
}

// attempt is what a line knows of the attempt on it, or of the last one.
type attempt struct {
	number  int                // counts them: a journal is of one
	claim   *pb.Claim          // with which it began
	begins  []tree.Message     // what was held of its transcript
	known   int32              // the ordinal of the last message that it knows of
	release chan int           // messages whose commands are to go on in the background
	drop    context.CancelFunc // tells who carries it out that it is lost; nil: nobody does yet
}

// begin puts an attempt on the line, unless that is closed. It needs the lock.
func (l *line) begin(claim *pb.Claim, begins []tree.Message, drop context.CancelFunc) {
	l.attempt = attempt{number: l.attempt.number + 1, claim: claim, begins: begins, release: make(chan int, 1), drop: drop}
	l.over, l.claims = l.closed, false
}

// goOn puts an attempt on the line that is this worker's already. drop is called when
// it is lost.
func (l *line) goOn(drop context.CancelFunc, claim *pb.Claim) *journal {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(claim, nil, drop)
	return newJournal(l)
}

// request is one request under way.
type request struct {
	line     *line
	req      *pb.WorkRequest
	answered chan struct{}
	counted  bool // it has a place in the window: all have but the claim of a run that was given
	response *pb.WorkResponse
	chunks   []*pb.Message  // of a claim: the transcript so far, after what is held
	begins   []tree.Message // of an end: what is held of the transcript that may be next
	err      error
}

// assignment is a granted claim with its whole transcript: how it begins, and what was
// sent of it.
type assignment struct {
	*pb.Assignment
	begins   []tree.Message
	messages []*pb.Message
}

// refusal is a claim that was not granted.
type refusal struct{ cause pb.RefusedCause }

func (r *refusal) Error() string { return "the claim was refused: " + r.cause.String() }

func (w *Worker) newLine() *line {
	return &line{
		client: w.Client, worker: w.ID, hello: w.hello, drain: w.Drain, alive: w.AlivePort, log: w.Logger, now: w.Now, window: make(chan struct{}, window), secrets: w.Secrets,
		up: make(chan struct{}), moved: make(chan struct{}), over: true, reach: &w.reach, replicas: w.replicas,
		welcome: func(welcome *pb.Welcome) { w.installation.welcomed(welcome.GetInstallationId()) },
	}
}

// receive takes the attempt over to the stream, if there is one, and then hands
// answers to their requests until the stream ends.
func (l *line) receive(k *link) error {
	if err := l.adopt(k); err != nil {
		return err
	}
	for {
		resp, err := k.receive(l.now)
		if err != nil {
			return err
		}
		for r := range wire.SplitResponses(resp) {
			l.hear(k, r)
		}
	}
}

// hear sees to one response.
func (l *line) hear(k *link, resp *pb.WorkResponse) {
	switch kind := resp.GetKind().(type) {
	case *pb.WorkResponse_Heartbeat:
	case *pb.WorkResponse_Lost:
		l.lose()
	case *pb.WorkResponse_Drain:
		l.drain()
	case *pb.WorkResponse_StoodDown:
		l.stoodDown(resp.GetGiven())
	case *pb.WorkResponse_BackgroundCommands:
		l.letGo(int(kind.BackgroundCommands.GetOrdinal()))
	case *pb.WorkResponse_Assignment:
		k.useful.Store(true)
		l.oldest(func(r *request) bool { r.response = resp; return false })
	case *pb.WorkResponse_Transcript:
		l.oldest(func(r *request) bool {
			r.chunks = append(r.chunks, kind.Transcript.GetMessages()...)
			return kind.Transcript.GetLast()
		})
	default:
		if r := resp.GetRefused(); r != nil && r.GetCause() != pb.RefusedCause_REFUSED_CAUSE_PROTOCOL {
			k.useful.Store(true)
		}
		l.oldest(func(r *request) bool { r.response = resp; return true })
	}
}

// errElsewhere ends a stream that has been opened while it became known where it is to go.
var errElsewhere = errors.New("the next claim is for another replica")

// adopt makes requests go over a stream. What is without an answer is sent again,
// once the orchestrator has said that the attempt goes on.
func (l *line) adopt(k *link) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	on, unanswered, claim, stands := !l.over, l.waiting, l.attempt.claim, l.stands
	l.mu.Unlock()
	switch {
	case stands != nil:
		answer, err := l.reattach(k, claim, stands)
		if err != nil {
			return err
		}
		l.stoodDown(answer.GetGiven())
	case on && !(len(unanswered) > 0 && unanswered[0].req.GetClaim() != nil):
		var last *request
		if n := len(unanswered); n > 0 {
			last = unanswered[n-1]
		}
		answer, err := l.reattach(k, claim, last)
		if err != nil {
			return err
		}
		if answer.GetReattached() == nil {
			l.drops(answer.GetGiven())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("the slot has ended")
	}
	if l.toward != "" && l.toward != k.endpoint {
		return errElsewhere
	}
	l.toward = ""
	l.forgetUnsent() // it is among what has no answer
	for _, r := range l.waiting {
		r.chunks, r.req.Shows = nil, nil
		if c := r.req.GetClaim(); c != nil {
			c.Protocol = k.protocol
		}
		if err := k.send(r.req); err != nil {
			return err
		}
	}
	l.link = k
	close(l.up)
	return nil
}

// reattach asks for the attempt to go on over a stream. If it has ended with the last request,
// if there is one, the answer may give the slot another run.
func (l *line) reattach(k *link, claim *pb.Claim, last *request) (*pb.WorkResponse, error) {
	if !k.features().Has(wire.FeatureReattach) {
		return nil, nil
	}
	offered := uint64(0)
	if last != nil {
		offered = last.req.GetTakes().GetNonce()
	}
	l.mu.Lock()
	known := l.attempt.known
	l.mu.Unlock()
	if err := k.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Reattach{Reattach: &pb.Reattach{
		SessionId: claim.GetSessionId(), TaskId: claim.GetTaskId(),
		Epoch: claim.GetEpoch(), Nonce: claim.GetNonce(), KnownOrdinal: known, Features: wire.WorkerFeatures(),
		WorkerId: l.worker, AlivePort: uint32(l.alive), TakesNonce: offered,
	}}}); err != nil {
		return nil, err
	}
	for {
		resp, err := k.receive(l.now)
		switch {
		case err != nil:
			return nil, err
		case resp.GetHeartbeat() != nil:
			continue
		case resp.GetDrain() != nil:
			l.drain()
			continue
		}
		k.useful.Store(true)
		return resp, nil
	}
}

// takeDown makes requests go over a stream no longer.
func (l *line) takeDown(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link == k {
		l.down()
	}
}

// down is for a line that has a stream. It needs the lock.
func (l *line) down() {
	close(l.moved)
	l.link, l.up, l.moved = nil, make(chan struct{}), make(chan struct{})
}

// retire ends the stream in use without a word, so that what is under way on it
// is void; another one is opened.
func (l *line) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link != nil {
		l.link.cancel()
	}
}

// close ends the attempt on the line, and lets no other begin.
func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.lose()
}

// ready waits for a stream, and reports false if ctx ends first.
func (l *line) ready(ctx context.Context) bool {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	select {
	case <-up:
		return true
	case <-ctx.Done():
		return false
	}
}

// at gives the replica that requests go to, and what is closed once that has changed.
func (l *line) at() (replica string, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link == nil {
		return "", l.up
	}
	return l.link.welcome.GetReplicaId(), l.moved
}

func (l *line) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// rest makes requests go over a stream no longer if the line is idle, waits for nothing over it,
// and is not about to claim a run; it reports whether it did.
func (l *line) rest(k *link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link != k || !l.over || l.stands != nil || l.claims {
		return false
	}
	l.down()
	return true
}

// joins reports whether what is shown may go with what is said next.
func (l *line) joins() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link != nil && l.link.features().Has(wire.FeatureJoined)
}

// carries reports whether the attempt of a journal is on the line.
func (l *line) carries(j *journal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over && l.attempt.number == j.attempt
}

// session is that of the attempt on the line.
func (l *line) session() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempt.claim.GetSessionId()
}

// releases tells of messages whose commands are to go on in the background.
func (l *line) releases() <-chan int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempt.release
}

// letGo tells the attempt on the line that the commands of a message are to go on in
// the background. It never waits: only the last message counts.
func (l *line) letGo(ordinal int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attempt.release == nil {
		return
	}
	select {
	case <-l.attempt.release:
	default:
	}
	l.attempt.release <- ordinal
}

// beat tells the other side of a stream that this one is there, also while nothing else may be sent
// as the answer to a reattachment is waited for.
func (l *line) beat(k *link) {
	if k.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Heartbeat{Heartbeat: &pb.Heartbeat{}}}) != nil {
		k.cancel()
	}
}
