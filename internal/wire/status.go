package wire

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
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
	tree.CodeDenied:       codes.PermissionDenied,
}

// The refusals of those who may not call. They carry no more than that, whatever
// was called.
var (
	ErrUnauthenticated = status.Error(codes.Unauthenticated, "the call carries no valid token")
	ErrForbidden       = status.Error(codes.PermissionDenied, "the token does not allow the call")
)

// Status gives the gRPC status of an error. The text of a named refusal is for
// the caller; what has no code is internal, and its cause stays with us.
// internal reports such an error, which the caller has to log.
func Status(err error) (internal bool, st error) {
	var named *tree.Error
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, context.Canceled):
		return false, status.Error(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return false, status.Error(codes.DeadlineExceeded, "the deadline of the call passed")
	case errors.As(err, &named):
		return named.Code == tree.CodeInternal, refusal(named)
	}
	if given, ok := status.FromError(err); ok {
		return false, given.Err()
	}
	return true, status.Error(codes.Internal, "internal error")
}

// errorDomain is whose reasons those of refusals are.
const errorDomain = "coppice.v1"

// refusal carries the reason of a named refusal beside its text.
func refusal(named *tree.Error) error {
	st := status.New(grpcCodes[named.Code], named.Error())
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: named.Reason(), Domain: errorDomain})
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

// Refusal is the status of an error as one of many answers on a stream carries it.
func Refusal(err error) *pb.Refusal {
	st := status.Convert(err)
	shown := &pb.Refusal{Code: int32(st.Code()), Message: st.Message()}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			shown.Reason = info.GetReason()
		}
	}
	return shown
}
