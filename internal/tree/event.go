package tree

import "time"

// Event is an entry of a session's log: what watchers see. Events refer to
// messages, they do not repeat them.
type Event struct {
	Seq  int64
	Time time.Time
	Task TaskID
	Run  int
	Kind EventKind
}

// EventKind says what happened; it is one of the types below.
type EventKind interface{ isEvent() }

// The kinds of events.
type (
	// SessionOpened is the first event of a session; its task is the root.
	SessionOpened struct{ Agent, Title string }
	// Started is the first event of a run.
	Started struct {
		Parent      TaskID
		Kind        Kind
		Branch      Branch
		Depth       int
		Agent       string
		Description string
		Background  bool
		Call        CallRef
	}
	// Dispatched says that a worker took the run.
	Dispatched struct {
		Epoch  int64
		Worker string
	}
	// MessageAppended says that the transcript grew.
	MessageAppended struct {
		Message MessageID
		Ordinal int
		Role    Role
		Calls   []OpenedCall
		Usage   Usage
		News    ChildRun
	}
	// CallResolved says that a call has its result.
	CallResolved struct {
		Ref     CallRef
		IsError bool
		Child   ChildRun
	}
	// Parked says that the run gave its worker back.
	Parked struct{ On ParkedOn }
	// Readied says that the run waits for a worker again.
	Readied struct {
		Cause ReadyCause
		Epoch int64
	}
	// Progressed is news from a running run.
	Progressed struct{ Activity string }
	// Result is the last event of a run.
	Result struct {
		State    State
		Reason   Reason
		Detail   string
		Message  MessageID
		Usage    Usage
		ToolUses int
	}
	// Backgrounded says that nobody's call waits for the run any more.
	Backgrounded struct{}
	// Queued says that a message waits for the task's next boundary.
	Queued struct{ News ChildRun }
)

// OpenedCall is a call in an assistant message.
type OpenedCall struct {
	Block int
	Tool  string
}

// ReadyCause says why a run waits for a worker again.
type ReadyCause uint8

// Why a run waits for a worker again.
const (
	ReadyUnspecified ReadyCause = iota
	ReadySatisfied              // what it waited for has come
	ReadyRedelivered            // its worker was lost
)

func (SessionOpened) isEvent()   {}
func (Started) isEvent()         {}
func (Dispatched) isEvent()      {}
func (MessageAppended) isEvent() {}
func (CallResolved) isEvent()    {}
func (Parked) isEvent()          {}
func (Readied) isEvent()         {}
func (Progressed) isEvent()      {}
func (Result) isEvent()          {}
func (Backgrounded) isEvent()    {}
func (Queued) isEvent()          {}
