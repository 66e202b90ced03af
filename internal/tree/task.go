package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/policy"
)

// Session is a parent conversation: one tree of tasks, one sequence of events.
type Session struct {
	ID           SessionID
	Tenant       string
	Title        string
	Agent        string
	Root         TaskID
	Current      TaskID // the branch that a person goes on with; zero: the root
	Metadata     map[string]string
	Limits       Limits
	Budget       Budget
	CallEstimate Budget // tokens and cost that a call of a model is reckoned to take; known where there is a budget

	NextSeq int64 // the number of the next event, from 1

	// Tasks by the state of their current run; Total counts all of them. Commands that
	// run are Shells, all others that run are Running.
	Total, Pending, Running, Waiting, Shells int

	Usage      Usage
	ModelCalls int64 // answers and summaries that are stored

	CreatedAt time.Time
	UpdatedAt time.Time
	ClosedAt  time.Time // zero: it is open
	DeletedAt time.Time // its rows are being removed; zero: it is there

	Asking int      // approvals that nobody has decided
	Grants []string // what is allowed without asking again

	Workspace string // the directory that it shares with others; empty: it has its own

	OnApproval string // the URL to call when something asks; empty: none
}

// Idle reports whether nothing is pending or running.
func (s *Session) Idle() bool { return s.Pending == 0 && s.Running == 0 && s.Shells == 0 }

// liveRuns is how many runs are under way.
func (s *Session) liveRuns() int { return s.Pending + s.Running + s.Waiting + s.Shells }

// count changes how many tasks of a kind are in a state.
func (s *Session) count(kind Kind, state State, by int) {
	switch state {
	case StatePending:
		s.Pending += by
	case StateRunning:
		if kind == KindShell {
			s.Shells += by
			return
		}
		s.Running += by
	case StateWaiting:
		s.Waiting += by
	}
}

// Token fences an attempt: every write of a worker carries it, and only the
// current one is taken. Epoch rises with every delivery, Nonce is the worker's
// choice.
type Token struct {
	Epoch int64
	Nonce uint64
}

// WaitKind says what a WAITING run waits for.
type WaitKind uint8

// What a run can wait for.
const (
	WaitNone       WaitKind = iota
	WaitCalls               // its open calls
	WaitBackground          // its background children; it has answered already
)

// ParkedOn is what a WAITING run waits for, and how far that has come.
type ParkedOn struct {
	Kind               WaitKind
	Total, Met, Failed int
}

// CallRef names a call within its task: the ordinal of the assistant message
// that opened it and the index of its block there.
type CallRef struct {
	Message int
	Block   int
}

// ChildRun names one run of a child.
type ChildRun struct {
	Task TaskID
	Run  int
}

// Task is a node of the tree with its current run.
type Task struct {
	Session SessionID
	ID      TaskID
	Parent  TaskID // zero for the root
	Kind    Kind
	Branch  Branch
	Base    Base // what its conversation goes on from
	Depth   int

	Agent         string
	AgentVersion  string
	Model         string // as asked for; empty: the agent's
	Description   string
	MaxIterations int
	CreatedAt     time.Time

	Pin             ModelPin      // what Model stood for when the task was made
	Timeout         time.Duration // how long a run may be RUNNING in all; 0: for ever
	FailOnInterrupt bool          // a lost worker ends the run
	OnComplete      string        // the URL to call when a run has ended; empty: none

	Permissions policy.Pinned // of its agent
	Origin      string        // who it was started for, if that is somebody outside

	Worktrees string // the ids of the tasks in whose worktrees it works, each below the one before; empty: the session's directory

	CurrentRun

	Epoch int64 // rises with every offer to the workers
	CurrentAttempt

	// The transcript.
	NextOrdinal int // from 1
	Head        MessageID
	LastAnswer  int // ordinal of the last assistant message, or 0
	Compacted   int // ordinal of the last summary, or 0
	OpenMessage int // ordinal of the assistant message with open calls, or 0
	OpenCalls   int
	Inbox       int // entries that wait for the next boundary

	// Children.
	Children       int // ever spawned
	LiveBackground int // background children whose run has not ended
	Watchers       int // waits of other tasks' calls on the current run

	// Over all runs.
	Usage         Usage
	ToolUses      int
	AllIterations int
}

// CurrentRun is what a task's row says of its current run. With the next, what accept does
// not set is zero again.
type CurrentRun struct {
	Run        int // counted from 1; 0 for StateNew
	State      State
	Reason     Reason
	Detail     string
	Caller     TaskID  // the task that asked for the run: the parent, or one above it; zero: a client
	Call       CallRef // the caller's call that asked for it
	Background bool    // nobody's call waits for the run; its end goes to the caller's inbox
	Iterations int     // model calls of the run
	RunUsage   Usage
	RunTools   int
	Answer     int // ordinal of the last message of its model that says something, or 0; of a run that has completed, of the one that answered
	AcceptedAt time.Time
	StartedAt  time.Time // first claim of the run; zero until then
	EndedAt    time.Time
	Wait       ParkedOn
	Priority   int           // lower goes first when workers are short
	Deadline   time.Time     // when the run fails if it has not ended; zero: never
	Ran        time.Duration // how long the run was RUNNING in earlier attempts
	ReportedAt time.Time     // the last event about its activity

	Authority   policy.Authority // what the run may do
	Trace       Trace            // where it hangs in a trace
	MovedAt     time.Time        // when it came to its state
	Source      string           // who outside the run is on behalf of; empty: nobody
	Asking      int              // open calls that wait for an approval
	StartHooked bool             // the outcome of the hooks on its start is stored
	StopHooked  int              // how often hooks on its stop have made it go on
	Strikes     int              // deliveries in a row that were lost without progress

	// What it is doing.
	Activity     string
	Recent       string // the last activities, one a line, oldest first
	LastProgress string // the line of progress that was shown last to somebody who reads its output
	Output       string // of a command: the end of what it has printed so far
}

// CurrentAttempt is how a worker has the current run; zero unless that is RUNNING.
type CurrentAttempt struct {
	Nonce     uint64
	Attach    int // how often a stream was given the attempt; only the last one speaks for it
	LastSeq   int64
	Replica   string
	Worker    string
	ClaimedAt time.Time
	Release   int // the ordinal of the message whose commands are to go on in the background, or 0
}

// Ended is how the current run has ended. Until the next run starts the task says it too.
func (t *Task) Ended() Run {
	return Run{
		Task: t.ID, Run: t.Run, State: t.State, Reason: t.Reason, Detail: t.Detail, Answer: t.Answer,
		Usage: t.RunUsage, ToolUses: t.RunTools, Iterations: t.Iterations,
		AcceptedAt: t.AcceptedAt, StartedAt: t.StartedAt, EndedAt: t.EndedAt,
	}
}

// LastReport is when the worker of the run has last said what it is doing, or has taken it; zero
// unless that is RUNNING.
func (t *Task) LastReport() time.Time {
	switch {
	case t.State != StateRunning:
		return time.Time{}
	case t.ReportedAt.After(t.ClaimedAt):
		return t.ReportedAt
	}
	return t.ClaimedAt
}

// answered reports whether the run has answered and nothing has come after that in its
// transcript: it waits for its background children, or was woken and has taken nothing in yet.
func (t *Task) answered() bool {
	return t.State.Active() && t.Iterations > 0 && t.OpenCalls == 0 && t.LastAnswer == t.NextOrdinal-1
}

// Token gives the token of the current attempt.
func (t *Task) Token() Token { return Token{Epoch: t.Epoch, Nonce: t.Nonce} }

// CallState is how far a call has come.
type CallState uint8

// The states of a call.
const (
	CallUnspecified CallState = iota
	CallOpen                  // nothing has been done for it
	CallStarted               // a tool that may not run twice was about to run
	CallWaiting               // it waits for a child or for a task's output
	CallClosed                // it has its result

	CallAsking   CallState = 20 // it waits for an approval
	CallApproved CallState = 21 // it is approved, and nothing has been done for it
)

// Call is a tool call. Exactly one of the ways to close it applies: by a tool's
// Result, or by Child, whose outcome is then the result.
type Call struct {
	Task  TaskID
	Ref   CallRef
	Tool  string
	State CallState

	Child ChildRun // the child that the call spawned, resumed or waits for

	Text      string // the result, unless Child's outcome is
	IsError   bool
	ByOutcome bool // closed by Child's outcome

	Approval ApprovalID // the question whether it may run, if there was one
	Join     Join       // what the ends of the other calls' children mean for Child
	Reads    bool       // it asks for Child's output
	Upto     int        // closed with what Child had said up to this message; Text is then the state it was in
}

// Run is how a run ended: immutable.
type Run struct {
	Task       TaskID
	Run        int
	State      State
	Reason     Reason
	Detail     string // of Reason; of one that has completed, what it left that its answer does not say
	Answer     int    // ordinal of the message that answered, or of an unfinished run's last words, or 0
	Usage      Usage
	ToolUses   int
	Iterations int
	AcceptedAt time.Time
	StartedAt  time.Time
	EndedAt    time.Time
}

// Unfinished reports whether the run is an agent's that did not complete: what its model has said
// last is no answer.
func (r *Run) Unfinished() bool { return r.State != StateCompleted && r.Iterations > 0 }

// ResultText is the result of a run with the text of its answer: what it has left behind comes last, if
// it was known only later.
func (r *Run) ResultText(answer string) string {
	if r.State != StateCompleted || r.Detail == "" {
		return answer
	}
	return answer + "\n\n" + r.Detail
}

// InboxEntry waits for its task's next boundary. It is a user's message, or
// news of the end of a background child.
type InboxEntry struct {
	Task     TaskID
	ID       MessageID // the id that the message will have
	Blocks   []Block   // a user's message
	News     ChildRun  // or: the child run that ended
	Source   string    // who outside it comes from; empty: nobody
	Trace    Trace     // where a turn hangs that it starts; zero: nothing is said of that
	QueuedAt time.Time
}

// WaitRow links a call to the task whose output it waits for.
type WaitRow struct {
	Target ChildRun
	Task   TaskID
	Ref    CallRef
}

// Timer closes a waiting call when it is due, or ends a run that takes too long.
type Timer struct {
	Task TaskID
	Ref  CallRef // of the call; or timeoutRef or deadlineRef, which are no calls'
	Due  time.Time
}

// The timers of a run: no message has the ordinal 0.
var (
	timeoutRef  = CallRef{Message: 0, Block: 0}
	deadlineRef = CallRef{Message: 0, Block: 1}
)

// Ready says that a run waits for a worker under an epoch.
type Ready struct {
	Task     TaskID
	Epoch    int64
	Priority int // lower goes first
	// Precedence is of runs of one session and priority: the higher goes first.
	Precedence int
	At         time.Time
}

// Attempt says which replica holds the stream of a running run, and since when.
type Attempt struct {
	Task    TaskID
	Epoch   int64
	Attach  int
	Replica string
	Worker  string
	At      time.Time
}
