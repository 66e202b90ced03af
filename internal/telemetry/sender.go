package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// sender keeps why the last thing that could not be sent was not: when time is up exporters say
// that, and not what they were trying in vain.
type sender struct {
	mu  sync.Mutex
	why error
}

// option has an exporter's calls seen.
func (s *sender) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := call(ctx, method, req, reply, conn, options...)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err == nil:
			s.why = nil
		case ctx.Err() == nil || s.why == nil:
			s.why = fmt.Errorf("%s: %s", conn.Target(), status.Convert(err).Message())
		}
		return err
	})
}

// explain gives why instead of an error that says that time is up.
func (s *sender) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return s.why
	}
	return err
}

// onceEach joins errors, each text once: what is wrong for spans is so for metrics and logs.
func onceEach(all []error) error {
	var said []string
	return errors.Join(slices.DeleteFunc(all, func(err error) bool {
		if err == nil || slices.Contains(said, err.Error()) {
			return true
		}
		said = append(said, err.Error())
		return false
	})...)
}
