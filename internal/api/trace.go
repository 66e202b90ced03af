package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/coppice-run/coppice/internal/telemetry"
)

// traceHeader is where a client says which span its call belongs to, as W3C has it.
const traceHeader = "traceparent"

// traced makes runs that a call starts hang below the client's span. The call itself
// is no span: it would bury the tree.
func traced(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(parented(ctx), req)
}

// parented gives a context of which a client's span is the parent, if the call names one.
func parented(ctx context.Context) context.Context {
	if header := metadata.ValueFromIncomingContext(ctx, traceHeader); len(header) == 1 {
		return telemetry.WithTraceParent(ctx, header[0])
	}
	return ctx
}
