package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
)

// line is one stream to an orchestrator and, while an attempt is on it, the
// attempt's journal. Requests go out under a lock, in the order of their seq;
// one goroutine receives and never waits for anyone.
type line struct {
	stream  pb.WorkerService_WorkClient
	welcome *pb.Welcome
	window  chan struct{} // one for each request without an answer
	broken  chan struct{} // closed when the stream has ended
	cancel  context.CancelFunc

	sending sync.Mutex // held while a request is numbered and sent
	seq     int64

	mu      sync.Mutex
	waiting []*request // without an answer, oldest first
	over    bool       // no attempt is on the line: new requests fail
	drop    context.CancelFunc
}

// request is one request under way.
type request struct {
	answered chan struct{}
	response *pb.WorkResponse
	chunks   []*pb.Message // of a claim: the transcript so far
	err      error
}

// assignment is a granted claim with its whole transcript.
type assignment struct {
	*pb.Assignment
	messages []*pb.Message
}

// refusal is a claim that was not granted.
type refusal struct{ cause pb.RefusedCause }

func (r *refusal) Error() string { return "the claim was refused: " + r.cause.String() }

// openLine opens a stream and waits for its welcome. The stream outlives ctx, so
// that it can be ended in good order; close ends it.
func openLine(opening context.Context, client pb.WorkerServiceClient) (*line, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(opening))
	defer context.AfterFunc(opening, cancel)()
	stream, err := client.Work(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	first, err := stream.Recv()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("waiting for the welcome: %w", err)
	}
	welcome := first.GetWelcome()
	if welcome == nil || welcome.GetWindow() < 1 {
		cancel()
		return nil, fmt.Errorf("the orchestrator did not start with a welcome, but with %T", first.GetKind())
	}
	l := &line{
		stream: stream, welcome: welcome, cancel: cancel, over: true,
		window: make(chan struct{}, welcome.GetWindow()), broken: make(chan struct{}),
	}
	go l.receive()
	return l, nil
}

// goodbye is how long the orchestrator may take to end a stream that the worker
// has ended.
const goodbye = time.Second

// close ends the stream, if it can in good order, so that nobody takes it for a
// crash, and waits until its receiver has gone.
func (l *line) close() {
	l.sending.Lock()
	err := l.stream.CloseSend()
	l.sending.Unlock()
	if err == nil {
		select {
		case <-l.broken:
		case <-time.After(goodbye):
		}
	}
	l.cancel()
	<-l.broken
}

// receive hands answers to their requests until the stream ends.
func (l *line) receive() {
	// First broken, then lost: a request is either refused or failed by lose.
	defer func() {
		close(l.broken)
		l.lose()
	}()
	for {
		resp, err := l.stream.Recv()
		if err != nil {
			return
		}
		switch k := resp.GetKind().(type) {
		case *pb.WorkResponse_Lost:
			l.lose()
		case *pb.WorkResponse_Assignment:
			l.oldest(func(r *request) bool { r.response = resp; return false })
		case *pb.WorkResponse_Transcript:
			l.oldest(func(r *request) bool {
				r.chunks = append(r.chunks, k.Transcript.GetMessages()...)
				return k.Transcript.GetLast()
			})
		default:
			l.oldest(func(r *request) bool { r.response = resp; return true })
		}
	}
}

// oldest gives the oldest request its answer, or a piece of it; it is done when
// take says so.
func (l *line) oldest(take func(*request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return // an answer to an attempt that was dropped
	}
	r := l.waiting[0]
	if !take(r) {
		return
	}
	l.waiting = l.waiting[1:]
	switch r.response.GetKind().(type) {
	case *pb.WorkResponse_Parked, *pb.WorkResponse_Ended, *pb.WorkResponse_Refused:
		l.over = true
	}
	close(r.answered)
	<-l.window
}

// lose ends the attempt on the line: nothing that is under way will be answered.
func (l *line) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.waiting {
		r.err = loop.ErrLost
		close(r.answered)
		<-l.window
	}
	l.waiting, l.over = nil, true
	if l.drop != nil {
		l.drop()
	}
}

// claim asks for a run. drop is called when the attempt is lost.
func (l *line) claim(ctx context.Context, drop context.CancelFunc, c *pb.Claim) (*assignment, error) {
	l.mu.Lock()
	l.over, l.drop = false, drop
	l.mu.Unlock()
	l.sending.Lock()
	l.seq = -1
	l.sending.Unlock()
	r := l.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Claim{Claim: c}})
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	switch k := r.response.GetKind().(type) {
	case *pb.WorkResponse_Assignment:
		return &assignment{k.Assignment, r.chunks}, nil
	case *pb.WorkResponse_Refused:
		return nil, &refusal{k.Refused.GetCause()}
	}
	return nil, fmt.Errorf("the claim was answered with %T", r.response.GetKind())
}

// send numbers a request and sends it; the answer comes to the request.
func (l *line) send(req *pb.WorkRequest) *request {
	r := &request{answered: make(chan struct{})}
	select {
	case l.window <- struct{}{}:
	case <-l.broken:
		return r.fail()
	}
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	if l.over || l.isBroken() {
		l.mu.Unlock()
		<-l.window
		return r.fail()
	}
	l.waiting = append(l.waiting, r)
	l.mu.Unlock()
	l.seq++
	req.Seq = l.seq
	if l.stream.Send(req) != nil {
		l.cancel() // the receiver sees the end and fails what is waiting
	}
	return r
}

func (l *line) isBroken() bool {
	select {
	case <-l.broken:
		return true
	default:
		return false
	}
}

func (r *request) fail() *request {
	r.err = loop.ErrLost
	close(r.answered)
	return r
}

func (r *request) wait(ctx context.Context) error {
	select {
	case <-r.answered:
		return r.err
	case <-ctx.Done():
		return loop.ErrLost
	}
}
