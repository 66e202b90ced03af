package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// InProcess connects a worker to the orchestrator of its own process. Its messages are encoded,
// checked and intercepted like those of other workers. They do not pass HTTP/2, where several
// goroutines would hand each of them on. Streams need no token, and wait until a [Server] serves them.
type InProcess struct {
	served  chan struct{} // closed once streams can be taken
	channel inprocgrpc.Channel

	mu      sync.Mutex
	stopped bool
	streams sync.WaitGroup // not added to after stopped is set
}

var _ grpc.ClientConnInterface = (*InProcess)(nil)

// NewInProcess returns a connection that is not served yet.
func NewInProcess() *InProcess { return &InProcess{served: make(chan struct{})} }

// Invoke refuses the call: the worker's service has only a stream.
func (p *InProcess) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	return fmt.Errorf("%s is not served inside the process", method)
}

// NewStream begins a stream.
func (p *InProcess) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	select {
	case <-p.served:
		return p.channel.NewStream(ctx, desc, method, options...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve takes streams until stop. Interceptors wrap them, the first one outermost.
func (p *InProcess) serve(worker pb.WorkerServiceServer, interceptors []grpc.StreamServerInterceptor) {
	p.channel.WithCloner(messageCopier{wire.NewCodec()})
	p.channel.WithServerStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, work grpc.StreamHandler) error {
		begun := p.begin()
		if begun {
			defer p.streams.Done() // after the interceptors, which may log
		}
		handler := func(srv any, stream grpc.ServerStream) error {
			if !begun {
				return tree.ErrStopping
			}
			return endOf(stream.Context(), work(srv, stream))
		}
		for _, intercept := range slices.Backward(interceptors) {
			inner := handler
			handler = func(srv any, stream grpc.ServerStream) error { return intercept(srv, stream, info, inner) }
		}
		return handler(srv, stream)
	})
	pb.RegisterWorkerServiceServer(&p.channel, worker)
	close(p.served)
}

// endOf gives why a stream has ended. The channel answers a message for a client that is gone with
// EOF, which would pass for a failure of the call.
func endOf(ctx context.Context, err error) error {
	if gone := ctx.Err(); gone != nil && errors.Is(err, io.EOF) {
		return gone
	}
	return err
}

func (p *InProcess) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.streams.Add(1)
	}
	return !p.stopped
}

// stop refuses new streams and waits for those under way.
func (p *InProcess) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.streams.Wait()
}

// messageCopier gives each side messages of its own. Between the sides a message is encoded, so the
// same is refused as on a connection.
type messageCopier struct{ codec wire.Codec }

var _ inprocgrpc.Cloner = messageCopier{}

// Clone encodes a message.
func (c messageCopier) Clone(message any) (any, error) { return c.codec.Marshal(message) }

// Copy decodes a message into an empty one.
func (c messageCopier) Copy(to, encoded any) error {
	data := encoded.(mem.BufferSlice)
	defer data.Free()
	if _, response := to.(*pb.WorkResponse); response {
		return wire.WorkerCodec{Codec: c.codec}.Unmarshal(data, to)
	}
	if size := data.Len(); size > maxRequestBytes {
		return tree.ErrTooLarge.With("the message has %d bytes, the limit is %d", size, maxRequestBytes)
	}
	if err := c.codec.Unmarshal(data, to); err != nil {
		return tree.ErrBadInput.With("decoding the message: %v", err)
	}
	return nil
}
