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

// grpcCodes is the only table of codes.
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

// The refusals of calls without a valid token. They say nothing about the call.
var (
	ErrUnauthenticated = status.Error(codes.Unauthenticated, "the call carries no valid token")
	ErrForbidden       = status.Error(codes.PermissionDenied, "the token does not allow the call")
)

// Status converts an error to a gRPC status. The text of a named error is for the caller. An error
// without a code is internal: the status has a generic text, and the caller of Status has to log
// the error, which internal reports.
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

// errorDomain is the domain of the reasons in ErrorInfo.
const errorDomain = "coppice.v1"

// refusal returns the status of a named error, with its reason.
func refusal(named *tree.Error) error {
	st := status.New(grpcCodes[named.Code], named.Error())
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: named.Reason(), Domain: errorDomain})
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

// Refusal converts an error to the refusal of one of several requests on a stream.
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
