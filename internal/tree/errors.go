package tree

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Code is the class of an error that a caller can act on. wire/status.go maps codes to gRPC.
type Code uint8

// The codes.
const (
	CodeInternal     Code = iota // a defect; never returned for a caller's mistake
	CodeNotFound                 // something named does not exist
	CodeInvalid                  // the request can never succeed
	CodePrecondition             // not possible in this state
	CodeExhausted                // over a limit
	CodeConflict                 // the key was used for another request
	CodeStale                    // not the current token
	CodeOutOfRange               // beyond the end
	CodeUnavailable              // try again later
	CodeDenied                   // the permissions do not allow it
)

// Error is a refusal: nothing was changed. Compare it with the named errors below by errors.Is;
// With adds a detail and keeps it equal.
type Error struct {
	Code   Code
	name   string
	detail string
}

func (e *Error) Error() string {
	if e.detail == "" {
		return e.name
	}
	return e.name + ": " + e.detail
}

// Reason is the name of the error for programs, such as NO_SUCH_SESSION. It never changes.
func (e *Error) Reason() string {
	words := strings.FieldsFunc(strings.ToUpper(e.name), func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "_")
}

// Is makes an error with a detail equal to its named error.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.name == e.name
}

// maxErrorDetail limits the detail of an error, in bytes, which may quote a request.
const maxErrorDetail = 500

// With returns the same error with a detail. Only the start of a long detail is kept.
func (e *Error) With(format string, args ...any) *Error {
	return &Error{Code: e.Code, name: e.name, detail: excerpt.Short(fmt.Sprintf(format, args...), maxErrorDetail)}
}

// CodeOf returns the code of the named error in err's chain, or CodeInternal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// The named refusals.
var (
	ErrNoSession     = &Error{Code: CodeNotFound, name: "no such session"}
	ErrNoTask        = &Error{Code: CodeNotFound, name: "no such task"}
	ErrNoAgent       = &Error{Code: CodeNotFound, name: "no such agent"}
	ErrNoModel       = &Error{Code: CodeNotFound, name: "no such model"}
	ErrNoWorker      = &Error{Code: CodeNotFound, name: "no such worker"}
	ErrNoCall        = &Error{Code: CodeNotFound, name: "no such call"}
	ErrSessionExists = &Error{Code: CodeConflict, name: "the session exists already"}
	ErrKeyReused     = &Error{Code: CodeConflict, name: "the idempotency key was used for another request"}

	ErrNotARoot    = &Error{Code: CodeInvalid, name: "the agent may not be a root"}
	ErrNotSubagent = &Error{Code: CodeInvalid, name: "the agent may not be a sub-agent"}
	ErrNoMessage   = &Error{Code: CodeNotFound, name: "no such message"}
	ErrNotABranch  = &Error{Code: CodeInvalid, name: "the task is neither the root nor a branch"}
	ErrEmpty       = &Error{Code: CodeInvalid, name: "the text is empty"}
	ErrBadInput    = &Error{Code: CodeInvalid, name: "the request is not valid"}
	ErrNotAnAgent  = &Error{Code: CodeInvalid, name: "the task is no agent"}
	ErrNotBelow    = &Error{Code: CodeInvalid, name: "the task is not below the caller"}

	ErrTooDeep  = &Error{Code: CodePrecondition, name: "the depth cap is reached"}
	ErrTooWide  = &Error{Code: CodePrecondition, name: "the width cap is reached"}
	ErrTooMany  = &Error{Code: CodePrecondition, name: "the total cap is reached"}
	ErrQueue    = &Error{Code: CodeExhausted, name: "too many tasks of the session are queued"}
	ErrTooLarge = &Error{Code: CodeExhausted, name: "too large"}
	ErrInbox    = &Error{Code: CodeExhausted, name: "too many messages wait for the task"}

	ErrInboxBytes = &Error{Code: CodeExhausted, name: "the messages that wait for the task are too large"}

	ErrStale      = &Error{Code: CodeStale, name: "the attempt is not the current one"}
	ErrNotReady   = &Error{Code: CodeStale, name: "the run does not wait for a worker under this epoch"}
	ErrCapped     = &Error{Code: CodeExhausted, name: "the session runs as many tasks as it may"}
	ErrOutOfOrder = &Error{Code: CodeStale, name: "the request is out of order"}

	ErrClosed       = &Error{Code: CodePrecondition, name: "the session is closed"}
	ErrDeleting     = &Error{Code: CodeUnavailable, name: "the session of this key is being deleted"}
	ErrInUse        = &Error{Code: CodePrecondition, name: "the session is in use"}
	ErrNothingRuns  = &Error{Code: CodePrecondition, name: "no command runs in the foreground"}
	ErrNoBackground = &Error{Code: CodePrecondition, name: "background work is switched off"}

	ErrHooksRan   = &Error{Code: CodePrecondition, name: "the start hooks of the run were stored already"}
	ErrNoCallback = &Error{Code: CodeNotFound, name: "no such callback"}
	ErrNotDue     = &Error{Code: CodePrecondition, name: "the callback is not due"}

	ErrEnded       = &Error{Code: CodePrecondition, name: "the run has ended"}
	ErrCallsOpen   = &Error{Code: CodePrecondition, name: "calls are still open"}
	ErrCallClosed  = &Error{Code: CodePrecondition, name: "the call is closed already"}
	ErrNoCalls     = &Error{Code: CodeInvalid, name: "the message opens no calls"}
	ErrHasCalls    = &Error{Code: CodeInvalid, name: "an answer that ends a run opens no calls"}
	ErrNotWaiting  = &Error{Code: CodePrecondition, name: "an open call waits for nothing"}
	ErrUnavailable = &Error{Code: CodeUnavailable, name: "try again later"}
	ErrStopping    = &Error{Code: CodeUnavailable, name: "the replica is stopping; call again"}
	ErrBeyondEnd   = &Error{Code: CodeOutOfRange, name: "beyond the last event"}

	ErrNoApproval     = &Error{Code: CodeNotFound, name: "no such approval"}
	ErrDecided        = &Error{Code: CodePrecondition, name: "the approval is not open any more"}
	ErrDenied         = &Error{Code: CodeDenied, name: "PERMISSION_DENIED"}
	ErrApprovalDenied = &Error{Code: CodeDenied, name: "APPROVAL_DENIED"}
	ErrInternalTool   = &Error{Code: CodeDenied, name: "TOOL_INTERNAL"}
)
