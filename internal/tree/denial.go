package tree

import (
	"errors"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// DenialCause is what denied a call.
type DenialCause uint8

// The causes. Their numbers are stored, and are those of the contract: only ever add.
const (
	DenialUnspecified  DenialCause = iota
	DeniedByPermission             // a rule or a mode
	DeniedUnasked                  // it asks, and nobody was asked
	DeniedByDecision               // somebody who was asked
	DeniedByExpiry                 // nobody decided in time
)

// Denial says why a call was not allowed to run. The zero value says that it was.
type Denial struct {
	Cause    DenialCause
	Tool     string
	Argument string   // what the tool says that the call is about; cut if it is long
	Rules    []string // what asked; none if the permissions deny it
	Detail   string   // why, as the model reads it

	ByDefinition bool // DeniedUnasked: the definition of the agent says so, not its session
}

// maxDeniedArgument bounds what is kept in an event of what a denied call is about, in bytes:
// all of it is in the transcript.
const maxDeniedArgument = 1 << 10

// refuse closes a call with an error as its result; if it was denied, the event says so.
func (d *decision) refuse(t *Task, call *Call, err error, denial Denial) {
	call.Text, call.IsError = err.Error(), true
	var named *Error
	if errors.As(err, &named) {
		denial.Detail = named.detail
	}
	d.closeDenied(t, call, denial)
}

// closeDenied closes a call that has its result, which is a denial if that has a cause.
func (d *decision) closeDenied(t *Task, call *Call, denial Denial) {
	if denial.Cause == DenialUnspecified {
		d.closeCall(t, call)
		return
	}
	denial.Tool = call.Tool
	denial.Argument = excerpt.Short(denial.Argument, maxDeniedArgument)
	denial.Detail = excerpt.Short(denial.Detail, maxErrorDetail)
	d.closeCallWith(t, call, denial)
}

// denialOf says whether a child is refused since the permissions don't allow it.
func (c CallChild) denialOf(err error) Denial {
	argument := c.AgentName
	if c.Shell != nil {
		argument = c.Shell.Line
	}
	switch {
	case errors.Is(err, ErrDenied):
		return Denial{Cause: DeniedByPermission, Argument: argument}
	case errors.Is(err, ErrApprovalDenied):
		return Denial{Cause: DeniedUnasked, Argument: argument}
	}
	return Denial{}
}
