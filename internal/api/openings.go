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

// openingsAtOnce is how many requests of one stream are under way at once. More of them stay
// unread, which holds the client back.
const openingsAtOnce = 256

// openings are the requests of one stream of CreateSessions. Goroutines that have answered one
// take the next, so that not each request grows a stack of its own.
type openings struct {
	*sessionServer
	stream  pb.SessionService_CreateSessionsServer
	next    chan *pb.CreateSessionsRequest // for who has answered one
	over    chan struct{}                  // closed: there is none any more
	sending sync.Mutex
}

func (s *sessionServer) CreateSessions(stream pb.SessionService_CreateSessionsServer) error {
	if err := stream.SendHeader(nil); err != nil { // so that the client knows that somebody is there
		return err
	}
	ctx, cancel := context.WithCancel(parented(stream.Context()))
	defer cancel()
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(openingsAtOnce)
	o := &openings{sessionServer: s, stream: stream, next: make(chan *pb.CreateSessionsRequest), over: make(chan struct{})}
	err := o.begin(ctx, all)
	close(o.over)
	if err != nil && !errors.Is(err, tree.ErrStopping) {
		cancel() // nobody is to wait on for what will not be sent
	}
	if failed := all.Wait(); err == nil {
		err = failed
	}
	return err
}

// begin has requests answered until the client has no more of them, or the stream has to end.
func (o *openings) begin(ctx context.Context, all *errgroup.Group) error {
	received, ended := make(chan *pb.CreateSessionsRequest), make(chan error, 1)
	go func() { ended <- o.receive(ctx, received) }()
	for {
		select {
		case req := <-received:
			if err := o.give(ctx, all, req); err != nil {
				return err
			}
		case err := <-ended:
			return err
		case <-ctx.Done(): // an answer could not be sent: the group knows why
			return nil
		case <-o.svc.Stopping():
			return tree.ErrStopping
		}
	}
}

// receive passes requests on until the client has no more of them.
func (o *openings) receive(ctx context.Context, to chan<- *pb.CreateSessionsRequest) error {
	for {
		req, err := o.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		select {
		case to <- req:
		case <-ctx.Done():
			return nil
		}
	}
}

// give hands a request to somebody who is idle, to somebody new, or to the first who becomes
// idle.
func (o *openings) give(ctx context.Context, all *errgroup.Group, req *pb.CreateSessionsRequest) error {
	select {
	case o.next <- req:
		return nil
	default:
	}
	if all.TryGo(func() error { return o.work(ctx, req) }) {
		return nil
	}
	select {
	case o.next <- req:
	case <-ctx.Done():
	case <-o.svc.Stopping():
		return tree.ErrStopping
	}
	return nil
}

// work answers a request, and others after it.
func (o *openings) work(ctx context.Context, req *pb.CreateSessionsRequest) error {
	for {
		answer := o.answer(ctx, req)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := o.send(answer); err != nil {
			return err
		}
		select {
		case req = <-o.next:
		case <-o.over:
			return nil
		}
	}
}

func (o *openings) send(answer *pb.CreateSessionsResponse) error {
	o.sending.Lock()
	defer o.sending.Unlock()
	return o.stream.Send(answer)
}

// answer is what a call of its own would have been answered with.
func (o *openings) answer(ctx context.Context, req *pb.CreateSessionsRequest) *pb.CreateSessionsResponse {
	answer := &pb.CreateSessionsResponse{Number: req.GetNumber()}
	opened, err := o.each(ctx, req.GetSession(), asCreateSession, func(ctx context.Context, req any) (any, error) {
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
