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

// maxConcurrentCreates bounds the requests of one stream that are being answered. Further requests
// stay unread, which slows the client down.
const maxConcurrentCreates = 256

// createStream serves the requests of one stream of CreateSessions. A goroutine that has answered
// one request takes the next, so that not every request needs a new goroutine and a new stack.
type createStream struct {
	*sessionServer
	stream   pb.SessionService_CreateSessionsServer
	group    *errgroup.Group
	requests chan *pb.CreateSessionsRequest // for idle goroutines
	done     chan struct{}                  // closed when no more requests come
	sending  sync.Mutex

	mu     sync.Mutex
	closed bool // no goroutine may join the group any more
}

func (s *sessionServer) CreateSessions(stream pb.SessionService_CreateSessionsServer) error {
	if err := stream.SendHeader(nil); err != nil { // so that the client knows that the call has arrived
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
		cancel() // don't wait for sessions whose answers can't be sent
	}
	if failed := all.Wait(); err == nil {
		err = failed
	}
	return err
}

// wait waits until the client has no more requests or the stream has to end.
func (o *createStream) wait(ctx context.Context, received <-chan error) error {
	select {
	case err := <-received:
		return err
	case <-ctx.Done(): // an answer could not be sent; the group returns the error
		return nil
	case <-o.svc.Stopping():
		return tree.ErrStopping
	}
}

// receive assigns requests until the client has no more.
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

// assign gives a request to an idle goroutine, to a new one, or to the first that becomes idle. It
// reports false if no more requests are taken.
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

// startAnswering starts a goroutine with a request, if there may be another one.
func (o *createStream) startAnswering(ctx context.Context, req *pb.CreateSessionsRequest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.closed && o.group.TryGo(func() error { return o.serve(ctx, req) })
}

// close makes idle goroutines end. No new ones start.
func (o *createStream) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	close(o.done)
}

// serve answers a request, and further ones after it.
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

// answer returns what a CreateSession call with the request would have returned.
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

// asCreateSession makes a request of a stream appear in logs as a call of CreateSession.
var asCreateSession = &grpc.UnaryServerInfo{FullMethod: pb.SessionService_CreateSession_FullMethodName}
