package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Protocol is the highest version of the worker protocol spoken here.
const Protocol = 1

// errProtocol says that a worker speaks a version that is not spoken here.
var errProtocol = errors.New("the protocol version is not spoken here")

// workWindow is how many requests of a stream may be without an answer.
const workWindow = 256

// handOverFor bounds how long the end of a stream may take to be recorded.
const handOverFor = 10 * time.Second

// WorkStream is the stream of one slot of a worker.
type WorkStream interface {
	Context() context.Context
	Send(*pb.WorkResponse) error
	Recv() (*pb.WorkRequest, error)
}

// asked is a request whose answer is still to be sent.
type asked struct {
	req     *pb.WorkRequest
	pending *store.Pending
	err     error // refused before it was submitted
}

// slot serves one stream: one goroutine receives and submits, another waits for
// the answers in the same order and sends them. Requests reach the store in the
// order in which they came, so a worker need not wait for one before the next.
type slot struct {
	*Service
	stream   WorkStream
	asked    chan asked
	claiming atomic.Bool   // a claim is on its way
	revoked  chan struct{} // holds one: look whether the attempt was ended from outside

	mu    sync.Mutex // guards what is below: the receiver reads it, the sender writes it
	lease *lease     // nil: no attempt is on the stream
	over  bool       // the stream takes no attempt any more
}

// lease is an attempt that is on a stream.
type lease struct {
	session tree.SessionID
	task    tree.TaskID
	agent   string
	run     int
	token   tree.Token

	// How far the worker knows the transcript; only the sender looks at these.
	seen   int
	opened int
	closed map[int]bool // calls of the last message that the worker closed itself
}

// Work serves a worker's stream until it ends. An attempt that is still on it
// then is offered to others.
func (s *Service) Work(stream WorkStream) error {
	s.leases.open()
	defer s.leases.close()
	l := &slot{Service: s, stream: stream, asked: make(chan asked, workWindow), revoked: make(chan struct{}, 1)}
	if err := stream.Send(&pb.WorkResponse{Kind: &pb.WorkResponse_Welcome{Welcome: &pb.Welcome{
		InstallationId: s.Store.Installation(), ReplicaId: s.Replica, Protocol: Protocol, Window: workWindow,
	}}}); err != nil {
		return err
	}
	answered, received := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(answered)
		l.answer()
	}()
	go func() {
		defer close(l.asked)
		received <- l.receive()
	}()
	select {
	case err := <-received:
		<-answered
		l.abandon(!errors.Is(err, io.EOF))
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-s.stopping:
		// Returning ends the stream, and with it both goroutines. What the worker
		// says from now on is refused as stale.
		l.finish()
		l.abandon(false)
		return tree.ErrStopping
	}
}

// receive submits what the worker asks until the stream ends.
func (l *slot) receive() error {
	for {
		req, err := l.stream.Recv()
		if err != nil {
			return err
		}
		if d := req.GetDelta(); d != nil {
			l.show(d)
			continue
		}
		a := asked{req: req}
		lease := l.current()
		switch claim := req.GetClaim(); {
		case claim != nil && (lease != nil || l.claiming.Swap(true)):
			return tree.ErrBadInput.With("a claim while an attempt is on the stream")
		case claim.GetProtocol() > Protocol:
			a.err = errProtocol
		case claim != nil:
			a.pending, a.err = l.submitClaim(claim)
		case lease == nil:
			continue // sent before the worker knew that its attempt is over
		default:
			from := tree.From{Task: lease.task, Token: lease.token, Seq: req.GetSeq()}
			var cmd tree.Command
			if cmd, a.err = wire.CommandFrom(req, from, l.spawnableBy(lease.agent)); a.err == nil {
				a.pending, a.err = l.Store.Submit(l.stream.Context(), lease.session, cmd)
			}
		}
		select {
		case l.asked <- a:
		default:
			return tree.ErrBadInput.With("more than %d requests without an answer", workWindow)
		}
	}
}

func (l *slot) submitClaim(claim *pb.Claim) (*store.Pending, error) {
	session, cmd, err := wire.ClaimFrom(claim)
	if err != nil {
		return nil, tree.ErrBadInput.With("%v", err)
	}
	return l.Store.Submit(l.stream.Context(), session, cmd)
}

// answer waits for each request in turn and sends what came of it, and tells the
// worker when its attempt was ended from outside.
func (l *slot) answer() {
	ctx := l.stream.Context()
	broken := false
	send := func(seq int64, responses ...*pb.WorkResponse) {
		for _, r := range responses {
			r.Seq = seq
			if !broken && l.stream.Send(r) != nil {
				broken = true // the receiver sees the end too; go on to learn what was stored
			}
		}
	}
	for {
		select {
		case a, more := <-l.asked:
			if !more {
				return
			}
			responses, err := l.respond(ctx, a)
			if err != nil {
				responses = []*pb.WorkResponse{l.lose(ctx, err)}
			}
			send(a.req.GetSeq(), responses...)
		case <-l.revoked:
			if lease := l.current(); lease != nil && l.leases.gone(lease.task, lease.token.Epoch) {
				l.hold(nil)
				send(0, lost("the run was cancelled"))
			}
		}
	}
}

func lost(detail string) *pb.WorkResponse {
	return &pb.WorkResponse{Kind: &pb.WorkResponse_Lost{Lost: &pb.Lost{Detail: detail}}}
}

// respond waits for one request and says what came of it. An error means that
// the attempt can't go on.
func (l *slot) respond(ctx context.Context, a asked) ([]*pb.WorkResponse, error) {
	var answer tree.Answer
	err := a.err
	if err == nil {
		// What was submitted is decided even if the stream is gone by now, and
		// whether an attempt is over must be known.
		answer, err = a.pending.Wait(context.WithoutCancel(ctx))
	}
	if claim := a.req.GetClaim(); claim != nil {
		defer l.claiming.Store(false)
		return l.claimed(ctx, claim, answer, err)
	}
	lease := l.current()
	switch {
	case lease == nil:
		return nil, nil // the worker has been told
	case err != nil:
		return nil, err
	}
	switch k := answer.(type) {
	case tree.Stored:
		ack, err := l.acknowledge(ctx, lease, a.req, k)
		return []*pb.WorkResponse{{Kind: &pb.WorkResponse_Ack{Ack: ack}}}, err
	case tree.ParkedRun:
		l.hold(nil)
		return []*pb.WorkResponse{{Kind: &pb.WorkResponse_Parked{Parked: &pb.Parked{}}}}, nil
	case tree.Ended:
		l.hold(nil)
		return []*pb.WorkResponse{{Kind: &pb.WorkResponse_Ended{Ended: &pb.Ended{State: pb.TaskState(k.State)}}}}, nil
	}
	return nil, fmt.Errorf("a worker's request was answered with %T", answer)
}

// acknowledge answers a stored request, with the boundary if it reached one.
func (l *slot) acknowledge(ctx context.Context, lease *lease, req *pb.WorkRequest, stored tree.Stored) (*pb.Ack, error) {
	ack := &pb.Ack{Ordinal: int32(stored.Ordinal)}
	if stored.Ordinal > 0 {
		lease.seen, lease.closed = stored.Ordinal, map[int]bool{}
	}
	if m := req.GetAppend().GetMessage(); m != nil {
		lease.opened = 0
		for _, b := range m.GetBlocks() {
			if b.GetToolUse() != nil {
				lease.opened++
			}
		}
	}
	if c := req.GetCallClose(); c != nil {
		lease.closed[int(c.GetResult().GetBlock())] = true
	}
	if stored.Boundary == 0 {
		return ack, nil
	}
	boundary, err := l.boundary(ctx, lease, stored.Boundary)
	ack.Boundary = boundary
	return ack, err
}

// boundary gives what the worker does not know of the transcript yet. If it has
// closed all calls itself and there is no news, it knows everything.
func (l *slot) boundary(ctx context.Context, lease *lease, last int) (*pb.Boundary, error) {
	after := lease.seen
	lease.seen = last
	if last == after || last == after+1 && lease.opened > 0 && len(lease.closed) == lease.opened {
		return &pb.Boundary{}, nil
	}
	messages, err := l.Store.Transcript(ctx, lease.session, lease.task, after, 0)
	if err != nil {
		return nil, err
	}
	out := &pb.Boundary{}
	for _, m := range messages {
		if m.Ordinal > last {
			break
		}
		shown := wire.Message(&m)
		if m.Role != tree.RoleTool {
			out.Messages = append(out.Messages, shown)
			continue
		}
		out.Results = shown
		unknown := shown.Blocks[:0]
		for _, b := range shown.GetBlocks() {
			if !lease.closed[int(b.GetToolResult().GetBlock())] {
				unknown = append(unknown, b)
			}
		}
		shown.Blocks = unknown
	}
	return out, nil
}

// lose ends the attempt on the stream after a request was refused or failed.
func (l *slot) lose(ctx context.Context, err error) *pb.WorkResponse {
	if tree.CodeOf(err) != tree.CodeStale {
		l.Logger.WarnContext(ctx, "an attempt can't go on", "error", err)
	}
	l.abandon(workersFault(err))
	return lost(err.Error())
}

// workersFault reports whether a request was refused for what it asked.
func workersFault(err error) bool {
	switch tree.CodeOf(err) {
	case tree.CodeInvalid, tree.CodePrecondition, tree.CodeExhausted, tree.CodeNotFound:
		return true
	}
	return false
}

// abandon offers the run to others, if an attempt is on the stream.
func (l *slot) abandon(blame bool) {
	lease := l.current()
	if lease == nil {
		return
	}
	l.hold(nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.stream.Context()), handOverFor)
	defer cancel()
	err := l.redeliver(ctx, lease.session, tree.Redeliver{Task: lease.task, Epoch: lease.token.Epoch, Blame: blame})
	if err != nil {
		// The sweep finds the attempt and tries again.
		l.Logger.WarnContext(ctx, "handing a run over failed", "session_id", lease.session, "task_id", lease.task, "error", err)
	}
}

func (l *slot) current() *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// finish makes the stream take no attempt any more.
func (l *slot) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// hold puts an attempt on the stream, or takes it off. It reports false if the
// stream takes none any more.
func (l *slot) hold(next *lease) bool {
	l.mu.Lock()
	if l.over && next != nil {
		l.mu.Unlock()
		return false
	}
	last := l.lease
	l.lease = next
	l.mu.Unlock()
	if last != nil {
		l.leases.drop(last.task, last.token.Epoch)
	}
	if next != nil {
		l.leases.add(next.task, next.token.Epoch, l.revoked)
	}
	return true
}

// show passes a piece of text to those who watch.
func (l *slot) show(d *pb.TextDelta) {
	if lease := l.current(); lease != nil {
		l.hub.delta(lease.session, &pb.Delta{
			TaskId: lease.task.String(), Run: int32(lease.run), Text: d.GetText(), Thinking: d.GetThinking(),
		})
	}
}
