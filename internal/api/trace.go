package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/coppice-run/coppice/internal/telemetry"
)

// traceHeader carries the span that a call belongs to, in the format of W3C.
const traceHeader = "traceparent"

// unaryTrace makes the client's span the parent of runs that a call starts. The call itself gets no
// span, because such spans would hide the tree.
func unaryTrace(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(withClientSpan(ctx), req)
}

// withClientSpan adds the client's span to a context, if the call names one.
func withClientSpan(ctx context.Context) context.Context {
	if header := metadata.ValueFromIncomingContext(ctx, traceHeader); len(header) == 1 {
		return telemetry.WithParent(ctx, header[0])
	}
	return ctx
}
