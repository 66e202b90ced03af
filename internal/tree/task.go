package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/policy"
)

// Session is a parent conversation: one tree of tasks and one sequence of events.
type Session struct {
	ID           SessionID
	Tenant       string
	Title        string
	Agent        string
	Root         TaskID
	Current      TaskID // the branch that messages without a task go to; zero: the root
	Metadata     map[string]string
	Limits       Limits
	Budget       Budget
	CallEstimate Budget // estimated tokens and cost of one model call; kept only with a budget

	NextSeq int64 // the number of the next event, from 1

	// Counts of tasks by the state of their current run; Total counts all tasks. Commands that run
	// count as Shells, other tasks that run as Running.
	Total, Pending, Running, Waiting, Shells int

	Usage      Usage
	ModelCalls int64 // stored answers and summaries

	CreatedAt time.Time
	UpdatedAt time.Time
	ClosedAt  time.Time // zero: it is open
	DeletedAt time.Time // since then its rows are being removed; zero: it is not deleted

	Asking      int      // open approvals
	DeniedCalls int      // calls of its tasks that were not allowed to run
	Grants      []string // rules that no longer ask

	Workspace string // the directory that it shares with other sessions; empty: its own

	OnApproval string // URL to call when a call asks for approval; empty: none
}

// Idle reports whether nothing is pending or running.
func (s *Session) Idle() bool { return s.Pending == 0 && s.Running == 0 && s.Shells == 0 }

// liveRuns is how many runs are under way.
func (s *Session) liveRuns() int { return s.Pending + s.Running + s.Waiting + s.Shells }

// count changes the number of tasks of a kind in a state.
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

// Token fences an attempt: each request of a worker carries it, and only the current token is
// accepted. Epoch rises with each delivery; the worker chooses Nonce.
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

// ParkedOn is what a WAITING run waits for, and how much of it has arrived.
type ParkedOn struct {
	Kind               WaitKind
	Total, Met, Failed int
}

// CallRef names a call within its task: the ordinal of the assistant message that opened it, and
// the index of its block in that message.
type CallRef struct {
	Message int
	Block   int
}

// ChildRun names one run of a task.
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
	Base    Base // what its conversation continues from
	Depth   int

	Agent         string
	AgentVersion  string
	Model         string // as requested; empty: the agent's
	Description   string
	MaxIterations int
	CreatedAt     time.Time

	Pin             ModelPin      // what Model resolved to when the task was made
	Timeout         time.Duration // how long a run may be RUNNING in total; 0: no limit
	FailOnInterrupt bool          // losing its worker ends the run
	OnComplete      string        // URL to call when a run has ended; empty: none

	Permissions policy.Pinned // of its agent
	Origin      string        // the external source that it was started for; empty: none

	Worktrees string // ids of the tasks whose worktrees it works in, each below the one before; empty: the session's directory

	CurrentRun

	Epoch int64 // rises with each offer to the workers
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
	Watchers       int // waits of other tasks' calls for the current run

	// Over all runs.
	Usage         Usage
	ToolUses      int
	AllIterations int
}

// CurrentRun is the part of a task that belongs to its current run. The next run starts with zero
// values, except those that accept sets.
type CurrentRun struct {
	Run        int // counted from 1; 0 for StateNew
	State      State
	Reason     Reason
	Detail     string
	Caller     TaskID  // the task that asked for the run: the parent or a task above it; zero: a client
	Call       CallRef // the caller's call that asked for the run
	Background bool    // no call waits for the run; its end goes to the caller's inbox
	Iterations int     // model calls
	RunUsage   Usage
	RunTools   int
	Answer     int // ordinal of the last message of its model that has text, or 0; of a completed run, of the answer
	AcceptedAt time.Time
	StartedAt  time.Time // the first claim; zero until then
	EndedAt    time.Time
	Wait       ParkedOn
	Priority   int           // lower goes first
	Deadline   time.Time     // the run fails if it has not ended by then; zero: never
	Ran        time.Duration // time RUNNING in earlier attempts
	ReportedAt time.Time     // the last event about its activity

	Authority   policy.Authority // what the run may do
	Trace       Trace            // its place in a trace
	MovedAt     time.Time        // when it entered its state
	Source      string           // the external source that the run acts for; empty: none
	Asking      int              // open calls that wait for approvals
	StartHooked bool             // the results of its start hooks are stored
	StopHooked  int              // how often stop hooks have made it continue
	Strikes     int              // deliveries lost in a row without progress

	// What it is doing.
	Activity     string
	Recent       string // the last activities, one a line, oldest first
	LastProgress string // the line of progress that was last shown to a reader of its output
	Output       string // of a command: the end of its output so far
}

// CurrentAttempt is the part of a task that belongs to its current attempt; zero unless the run is
// RUNNING.
type CurrentAttempt struct {
	Nonce     uint64
	Attach    int // how often the attempt was given to a stream; only the last stream counts
	LastSeq   int64
	Replica   string
	Worker    string
	ClaimedAt time.Time
	Release   int // ordinal of the message whose commands are to move to the background, or 0
}

// Ended is how the current run has ended. The task also holds this until its next run starts.
func (t *Task) Ended() Run {
	return Run{
		Task: t.ID, Run: t.Run, State: t.State, Reason: t.Reason, Detail: t.Detail, Answer: t.Answer,
		Usage: t.RunUsage, ToolUses: t.RunTools, Iterations: t.Iterations,
		AcceptedAt: t.AcceptedAt, StartedAt: t.StartedAt, EndedAt: t.EndedAt,
	}
}

// LastReport is when the worker of the run last reported its activity, or claimed the run; zero
// unless the run is RUNNING.
func (t *Task) LastReport() time.Time {
	switch {
	case t.State != StateRunning:
		return time.Time{}
	case t.ReportedAt.After(t.ClaimedAt):
		return t.ReportedAt
	}
	return t.ClaimedAt
}

// answered reports whether the run has answered and its transcript has nothing after that: it waits
// for its background children, or was woken and has not taken its inbox in yet.
func (t *Task) answered() bool {
	return t.State.Active() && t.Iterations > 0 && t.OpenCalls == 0 && t.LastAnswer == t.NextOrdinal-1
}

// Token gives the token of the current attempt.
func (t *Task) Token() Token { return Token{Epoch: t.Epoch, Nonce: t.Nonce} }

// CallState is the state of a call.
type CallState uint8

// The states of a call.
const (
	CallUnspecified CallState = iota
	CallOpen                  // nothing was done for it yet
	CallStarted               // a tool that must not run twice was about to run
	CallWaiting               // waits for a child or for a task's output
	CallClosed                // has its result

	CallAsking   CallState = 20 // waits for an approval
	CallApproved CallState = 21 // is approved, and nothing was done for it yet
)

// Call is a tool call. It is closed in exactly one of two ways: with the result of a tool, or with
// the outcome of Child.
type Call struct {
	Task  TaskID
	Ref   CallRef
	Tool  string
	State CallState

	Child ChildRun // the child that the call spawned, resumed or waits for

	Text      string // the result, unless it is Child's outcome
	IsError   bool
	ByOutcome bool // closed with Child's outcome

	Approval ApprovalID // the approval that it asked for, if any
	Join     Join       // what the ends of other calls' children mean for Child
	Reads    bool       // it asks for Child's output
	Upto     int        // closed with what Child had said up to this message; Text is then Child's state at that time
}

// Run is how a run has ended. It never changes.
type Run struct {
	Task       TaskID
	Run        int
	State      State
	Reason     Reason
	Detail     string // of Reason; of a completed run, what it leaves behind that its answer does not say
	Answer     int    // ordinal of the answer, or of the last words of an unfinished run, or 0
	Usage      Usage
	ToolUses   int
	Iterations int
	AcceptedAt time.Time
	StartedAt  time.Time
	EndedAt    time.Time
}

// Unfinished reports whether an agent's run did not complete: the last text of its model is not an
// answer.
func (r *Run) Unfinished() bool { return r.State != StateCompleted && r.Iterations > 0 }

// ResultText is the result of a run with this answer. What the run leaves behind is added at the
// end, if it was known only after the answer.
func (r *Run) ResultText(answer string) string {
	if r.State != StateCompleted || r.Detail == "" {
		return answer
	}
	return answer + "\n\n" + r.Detail
}

// InboxEntry waits for its task's next boundary. It is a user's message, or news of the end of a
// background child.
type InboxEntry struct {
	Task     TaskID
	ID       MessageID // the id that the message will have
	Blocks   []Block   // a user's message
	News     ChildRun  // or: the child run that ended
	Source   string    // the external source that it comes from; empty: none
	Trace    Trace     // the parent of a turn that starts with it; zero: unspecified
	QueuedAt time.Time
}

// WaitRow links a call to the task that it waits for.
type WaitRow struct {
	Target ChildRun
	Task   TaskID
	Ref    CallRef
}

// Timer closes a waiting call when it is due, or ends a run that takes too long.
type Timer struct {
	Task TaskID
	Ref  CallRef // of the call; or timeoutRef or deadlineRef, which are not calls
	Due  time.Time
}

// The timers of a run. No message has ordinal 0.
var (
	timeoutRef  = CallRef{Message: 0, Block: 0}
	deadlineRef = CallRef{Message: 0, Block: 1}
)

// Ready says that a run waits for a worker, under an epoch.
type Ready struct {
	Task     TaskID
	Epoch    int64
	Priority int // lower goes first
	// Precedence orders runs of the same session and priority: higher goes first.
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
	Nonce   uint64
	At      time.Time
}
