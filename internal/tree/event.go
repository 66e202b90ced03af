package tree

import "time"

// Event is an entry of a session's log, as watchers see it. Events refer to messages and do not
// repeat them.
type Event struct {
	Seq  int64
	Time time.Time
	Task TaskID
	Run  int
	Kind EventKind
}

// EventKind is what happened: one of the types below.
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
	// Dispatched says that a worker has claimed the run.
	Dispatched struct {
		Epoch  int64
		Worker string
	}
	// MessageAppended says that the transcript has a new message.
	MessageAppended struct {
		Message MessageID
		Ordinal int
		Role    Role
		Calls   []OpenedCall
		Usage   Usage
		News    ChildRun
		UpTo    int // of a summary
		// Activity is the task's activity once the calls are opened; empty without calls.
		Activity string
	}
	// CallResolved says that a call has its result.
	CallResolved struct {
		Ref     CallRef
		IsError bool
		Child   ChildRun
		Denial  Denial // zero: it was not denied
	}
	// Parked says that the run has given its worker back.
	Parked struct{ On ParkedOn }
	// Readied says that the run waits for a worker again.
	Readied struct {
		Cause ReadyCause
		Epoch int64
	}
	// Progressed reports the activity of a running run.
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
	// Backgrounded says that no call waits for the run any more.
	Backgrounded struct{}
	// BranchOpened says that a branch was made, which has no run yet. It belongs to no run.
	BranchOpened struct {
		Base        Base
		Head        MessageID // the last inherited message; zero if there are none
		Agent       string
		Description string
	}
	// BranchSelected says that the task is the current one. It belongs to no run.
	BranchSelected struct{}
	// Imported says that a task begins with imported messages. It belongs to no run.
	Imported struct {
		Messages int
		Head     MessageID // the last one
	}
	// HookRan is the result of a hook.
	HookRan struct {
		Event    HookEvent
		Name     string
		Matcher  string
		Outcome  HookOutcome
		Millis   int64
		ExitCode int
		Message  string
	}
	// CallbackEnded says that a callback was answered or given up. It belongs to no run. For the
	// callback of the end of a run it comes after the run's result; for the callback of an
	// approval it can come before that.
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
	// InboxTaken says that the inbox is moved to the transcript.
	InboxTaken struct{ Messages, News int }
	// InboxCleared says that entries of the inbox were removed. It belongs to no run.
	InboxCleared struct {
		Messages int
		News     []ChildRun
		Left     int
	}
	// InboxEmpty says that the inbox is empty. It belongs to no run.
	InboxEmpty struct{}
	// SessionChanged says how the session has changed; its task is the root. It belongs to no run.
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
	// ApprovalDecision says that an approval was decided, or withdrawn because its run ended.
	ApprovalDecision struct {
		Approval   ApprovalID
		Ref        CallRef
		State      ApprovalState
		ForSession bool
		Message    string
	}
	// ApprovalLapsed says that an approval was not decided in time.
	ApprovalLapsed struct {
		Approval ApprovalID
		Ref      CallRef
	}
)

// OpenedCall is a call of an assistant message.
type OpenedCall struct {
	Block int
	Tool  string
}

// SessionChange is a kind of change of a session.
type SessionChange uint8

// The changes of a session.
const (
	SessionUnchanged SessionChange = iota
	SessionRenamed
	SessionClosed
	SessionDeleted
	SessionBudgeted
)

// ReadyCause says why a run waits for a worker again.
type ReadyCause uint8

// The causes.
const (
	ReadyUnspecified ReadyCause = iota
	ReadySatisfied              // what it waited for has arrived
	ReadyRedelivered            // its worker was lost, or gave it back because the worker stops
	ReadyMadeWay                // the session's budget does not cover another call while others run
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
