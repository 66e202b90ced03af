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

// sendErrors remembers the last send error of the exporters. When their deadline passes,
// exporters report only that, not the error that they were retrying.
type sendErrors struct {
	mu   sync.Mutex
	last error
}

// dialOption has the outcomes of an exporter's calls remembered.
func (s *sendErrors) dialOption() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := call(ctx, method, req, reply, conn, options...)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err == nil:
			s.last = nil
		case ctx.Err() == nil || s.last == nil:
			s.last = fmt.Errorf("%s: %s", conn.Target(), status.Convert(err).Message())
		}
		return err
	})
}

// explain returns the remembered error in place of a timeout.
func (s *sendErrors) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return s.last
	}
	return err
}

// joinDistinct joins errors and drops repeated texts: a bad endpoint gives the same error for
// spans, metrics and logs.
func joinDistinct(all []error) error {
	var said []string
	return errors.Join(slices.DeleteFunc(all, func(err error) bool {
		if err == nil || slices.Contains(said, err.Error()) {
			return true
		}
		said = append(said, err.Error())
		return false
	})...)
}
