package tree

import (
	"errors"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// DenialCause says why a call was denied.
type DenialCause uint8

// The causes. Their numbers are stored, and are those of the API: never change or reuse one.
const (
	DenialUnspecified  DenialCause = iota
	DeniedByPermission             // by a rule or a mode
	DeniedUnasked                  // it needs approval, and nobody was asked
	DeniedByDecision               // by the person who decided
	DeniedByExpiry                 // not decided in time
)

// Denial says why a call was not allowed to run. The zero value says that it was allowed.
type Denial struct {
	Cause    DenialCause
	Tool     string
	Argument string   // what the tool says that the call is about; cut if it is long
	Rules    []string // the rules that ask; none if the permissions deny it
	Detail   string   // the reason, as the model reads it

	ByDefinition bool // with DeniedUnasked: by the agent's definition, not by its session
}

// maxDeniedArgument limits the argument of a denied call in an event, in bytes. The transcript has
// all of it.
const maxDeniedArgument = 1 << 10

// refuse closes a call with an error as its result. If the call was denied, the event says so.
func (d *decision) refuse(t *Task, call *Call, err error, denial Denial) {
	call.Text, call.IsError = err.Error(), true
	var named *Error
	if errors.As(err, &named) {
		denial.Detail = named.detail
	}
	d.closeDenied(t, call, denial)
}

// closeDenied closes a call that has its result. It was denied if the denial has a cause.
func (d *decision) closeDenied(t *Task, call *Call, denial Denial) {
	if denial.Cause == DenialUnspecified {
		d.closeCall(t, call)
		return
	}
	d.session().DeniedCalls++
	denial.Tool = call.Tool
	denial.Argument = excerpt.Short(denial.Argument, maxDeniedArgument)
	denial.Detail = excerpt.Short(denial.Detail, maxErrorDetail)
	d.closeCallWith(t, call, denial)
}

// denialOf gives the denial if a child is refused by permissions; otherwise the zero value.
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
