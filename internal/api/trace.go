package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/coppice-run/coppice/internal/telemetry"
)

// traceHeader is where a client says which span its call belongs to, as W3C has it.
const traceHeader = "traceparent"

// unaryTrace makes runs that a call starts hang below the client's span. The call itself
// is no span: it would bury the tree.
func unaryTrace(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(withClientSpan(ctx), req)
}

// withClientSpan gives a context of which a client's span is the parent, if the call names one.
func withClientSpan(ctx context.Context) context.Context {
	if header := metadata.ValueFromIncomingContext(ctx, traceHeader); len(header) == 1 {
		return telemetry.WithParent(ctx, header[0])
	}
	return ctx
}
