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
		Base        Base // of a fork
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
		UpTo    int // of a summary
	}
	// CallResolved says that a call has its result.
	CallResolved struct {
		Ref     CallRef
		IsError bool
		Child   ChildRun
		Denial  Denial // zero: it was not denied
	}
	// Parked says that the run gave its worker back.
	Parked struct{ On ParkedOn }
	// Readied says that the run waits for a worker again.
	Readied struct {
		Cause ReadyCause
		Epoch int64
	}
	// Progressed is news from a running run.
	Progressed struct {
		Activity string
		ToolUses int
		Tokens   int64
		Recent   []string
	}
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
	// BranchOpened says that a conversation hangs off another's message; it has had
	// no turn yet. It is of no run.
	BranchOpened struct {
		Base        Base
		Head        MessageID // of the inherited messages the last; zero if there are none
		Agent       string
		Description string
	}
	// BranchSelected says that the task's conversation is the current one. It is of
	// no run.
	BranchSelected struct{}
	// Imported says that a task begins with messages of another place. It is of no run.
	Imported struct {
		Messages int
		Head     MessageID // the last one
	}
	// HookRan says what came of a hook.
	HookRan struct {
		Event    HookEvent
		Name     string
		Matcher  string
		Outcome  HookOutcome
		Millis   int64
		ExitCode int
		Message  string
	}
	// CallbackEnded says that the callback of a run was answered, or is given up. It
	// comes after the run's result and is of no run. Or it is that of an approval of the run.
	CallbackEnded struct {
		Run       int
		Approval  ApprovalID `json:",omitzero"` // zero: it is that of the run's end
		URL       string
		Delivered bool
		Tries     int
		Detail    string
	}
	// Queued says that a message waits for the task's next boundary.
	Queued struct {
		News    ChildRun
		Message MessageID
		Waiting int // with this one
	}
	// InboxTaken says that what waits for the task goes into its transcript.
	InboxTaken struct{ Messages, News int }
	// InboxCleared says that some of what waited for the task was taken away. It
	// belongs to no run.
	InboxCleared struct {
		Messages int
		News     []ChildRun
		Left     int
	}
	// InboxEmpty says that nothing waits for the task any more. It belongs to no
	// run.
	InboxEmpty struct{}
	// SessionChanged says what became of the session; its task is the root. It
	// belongs to no run.
	SessionChanged struct {
		Change SessionChange
		Title  string
		Budget Budget
	}
)

// The kinds of events that are about approvals.
type (
	// ApprovalRequested says that a call waits for an approval.
	ApprovalRequested struct {
		Approval ApprovalID
		Ref      CallRef
		Tool     string
		Argument string
		Cut      int // bytes of the argument that are left out
		Rules    []string
		Due      time.Time
	}
	// ApprovalDecision says that an approval was decided, or withdrawn since its
	// run ended.
	ApprovalDecision struct {
		Approval   ApprovalID
		Ref        CallRef
		State      ApprovalState
		ForSession bool
		Message    string
	}
	// ApprovalLapsed says that nobody decided on an approval in time.
	ApprovalLapsed struct {
		Approval ApprovalID
		Ref      CallRef
	}
)

// OpenedCall is a call in an assistant message.
type OpenedCall struct {
	Block int
	Tool  string
}

// SessionChange says what became of a session.
type SessionChange uint8

// What can become of a session.
const (
	SessionUnchanged SessionChange = iota
	SessionRenamed
	SessionClosed
	SessionDeleted
	SessionBudgeted
)

// ReadyCause says why a run waits for a worker again.
type ReadyCause uint8

// Why a run waits for a worker again.
const (
	ReadyUnspecified ReadyCause = iota
	ReadySatisfied              // what it waited for has come
	ReadyRedelivered            // its worker was lost
	ReadyMadeWay                // the session's budget has no call left for it beside those of others
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
func (BranchOpened) isEvent()    {}
func (BranchSelected) isEvent()  {}
func (Imported) isEvent()        {}
func (Queued) isEvent()          {}
func (InboxTaken) isEvent()      {}
func (InboxCleared) isEvent()    {}
func (InboxEmpty) isEvent()      {}
func (SessionChanged) isEvent()  {}
func (HookRan) isEvent()         {}
func (CallbackEnded) isEvent()   {}

func (ApprovalRequested) isEvent() {}
func (ApprovalDecision) isEvent()  {}
func (ApprovalLapsed) isEvent()    {}
