package wire

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/tree"
)

// grpcCodes is the one table of codes.
var grpcCodes = map[tree.Code]codes.Code{
	tree.CodeInternal:     codes.Internal,
	tree.CodeNotFound:     codes.NotFound,
	tree.CodeInvalid:      codes.InvalidArgument,
	tree.CodePrecondition: codes.FailedPrecondition,
	tree.CodeExhausted:    codes.ResourceExhausted,
	tree.CodeConflict:     codes.AlreadyExists,
	tree.CodeStale:        codes.Aborted,
	tree.CodeOutOfRange:   codes.OutOfRange,
	tree.CodeUnavailable:  codes.Unavailable,
}

// Status gives the gRPC status of an error. The text of a named refusal is for
// the caller; what has no code is internal, and its cause stays with us.
// internal reports such an error, which the caller has to log.
func Status(err error) (st error, internal bool) {
	var named *tree.Error
	switch {
	case err == nil:
		return nil, false
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the call was cancelled"), false
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the deadline of the call passed"), false
	case errors.As(err, &named):
		return status.Error(grpcCodes[named.Code], named.Error()), named.Code == tree.CodeInternal
	}
	if st, ok := status.FromError(err); ok {
		return st.Err(), false
	}
	return status.Error(codes.Internal, "internal error"), true
}
