package api

import (
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// maxConcurrentCreates is how many requests of one stream are under way at once. More of them stay
// unread, which holds the client back.
const maxConcurrentCreates = 256

// createStream are the requests of one stream of CreateSessions. Goroutines that have answered one
// take the next, so that not each request grows a stack of its own.
type createStream struct {
	*sessionServer
	stream   pb.SessionService_CreateSessionsServer
	group    *errgroup.Group
	requests chan *pb.CreateSessionsRequest // for who has answered one
	done     chan struct{}                  // closed: there is none any more
	sending  sync.Mutex

	mu     sync.Mutex
	closed bool // nobody joins all any more
}

func (s *sessionServer) CreateSessions(stream pb.SessionService_CreateSessionsServer) error {
	if err := stream.SendHeader(nil); err != nil { // so that the client knows that somebody is there
		return err
	}
	ctx, cancel := context.WithCancel(withClientSpan(stream.Context()))
	defer cancel()
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(maxConcurrentCreates)
	o := &createStream{sessionServer: s, stream: stream, group: all, requests: make(chan *pb.CreateSessionsRequest), done: make(chan struct{})}
	received := make(chan error, 1)
	go func() { received <- o.receive(ctx) }()
	err := o.wait(ctx, received)
	o.close()
	if err != nil && !errors.Is(err, tree.ErrStopping) {
		cancel() // nobody is to wait on for what will not be sent
	}
	if failed := all.Wait(); err == nil {
		err = failed
	}
	return err
}

// wait waits until the client has no more requests, or the stream has to end.
func (o *createStream) wait(ctx context.Context, received <-chan error) error {
	select {
	case err := <-received:
		return err
	case <-ctx.Done(): // an answer could not be sent: the group knows why
		return nil
	case <-o.svc.Stopping():
		return tree.ErrStopping
	}
}

// receive has requests answered until the client has no more of them.
func (o *createStream) receive(ctx context.Context) error {
	for {
		req, err := o.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if !o.assign(ctx, req) {
			return nil
		}
	}
}

// assign hands a request to somebody who is idle, to somebody new, or to the first who becomes
// idle. It reports false if nobody takes requests any more.
func (o *createStream) assign(ctx context.Context, req *pb.CreateSessionsRequest) bool {
	select {
	case o.requests <- req:
		return true
	default:
	}
	if o.startAnswering(ctx, req) {
		return true
	}
	select {
	case o.requests <- req:
		return true
	case <-o.done:
		return false
	}
}

// startAnswering has a request answered by somebody new, if there is room for one.
func (o *createStream) startAnswering(ctx context.Context, req *pb.CreateSessionsRequest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.closed && o.group.TryGo(func() error { return o.serve(ctx, req) })
}

// close lets those go who have answered what they were given. Nobody new comes.
func (o *createStream) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	close(o.done)
}

// serve answers a request, and others after it.
func (o *createStream) serve(ctx context.Context, req *pb.CreateSessionsRequest) error {
	for {
		answer := o.answer(ctx, req)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := o.send(answer); err != nil {
			return err
		}
		select {
		case req = <-o.requests:
		case <-o.done:
			return nil
		}
	}
}

func (o *createStream) send(answer *pb.CreateSessionsResponse) error {
	o.sending.Lock()
	defer o.sending.Unlock()
	return o.stream.Send(answer)
}

// answer is what a call of its own would have been answered with.
func (o *createStream) answer(ctx context.Context, req *pb.CreateSessionsRequest) *pb.CreateSessionsResponse {
	answer := &pb.CreateSessionsResponse{Number: req.GetNumber()}
	opened, err := o.intercept(ctx, req.GetSession(), asCreateSession, func(ctx context.Context, req any) (any, error) {
		asked := req.(*pb.CreateSessionRequest)
		if asked == nil {
			return nil, tree.ErrBadInput.With("session is missing")
		}
		return o.CreateSession(ctx, asked)
	})
	if err != nil {
		answer.Outcome = &pb.CreateSessionsResponse_Refused{Refused: wire.Refusal(err)}
	} else {
		answer.Outcome = &pb.CreateSessionsResponse_Opened{Opened: opened.(*pb.CreateSessionResponse)}
	}
	return answer
}

// asCreateSession is what a request of a stream is called in logs.
var asCreateSession = &grpc.UnaryServerInfo{FullMethod: pb.SessionService_CreateSession_FullMethodName}
