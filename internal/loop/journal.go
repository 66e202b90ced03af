package loop

import (
	"context"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// Journal records a run. Requests are recorded in the order in which they are made, and making a
// request never waits for the answer to another one. If the answer to a request is not success,
// all later requests fail with [ErrLost]. Deltas and reports have no answer. All methods are safe
// for concurrent use.
type Journal interface {
	// Append records an assistant message and opens its calls.
	Append(m *tree.Message) Pending
	// StartCall records that a tool which may not run twice is about to run.
	StartCall(block int) Pending
	// CloseCall records the result of a call.
	CloseCall(r tree.ToolResult) Pending
	// DenyCall records that the permissions deny a call, with its argument and the reason.
	DenyCall(r tree.ToolResult, argument, why string) Pending
	// Spawn records the children that calls ask for. Waiting for the answer hands the commands
	// among them to the journal, which runs them; the others have to be dropped.
	Spawn(children []Child) Pending
	// Await leaves a call open until a task has output.
	Await(block int, task tree.TaskID, timeout time.Duration) Pending
	// Stop ends a task, and closes the call with the task's outcome.
	Stop(block int, task tree.TaskID) Pending
	// Ask asks whether a call may run. If the answer is not approved, the call waits or is closed
	// with a denial.
	Ask(block int, argument string, rules []string) Pending
	// Compact records a summary of all messages up to an ordinal.
	Compact(upTo int, summary *tree.Message) Pending
	// Park releases the run until its open calls are closed.
	Park() Pending
	// End ends the run with an answer, or with a reason.
	End(e Ending) Pending
	// StartHooks records the results of the start hooks.
	StartHooks(ran []tree.HookRun) Pending
	// StopHooks ends the run with an answer, unless a stop hook objects.
	StopHooks(answer *tree.Message, ran []tree.HookRun, left string) Pending
	// Report reports what the run does. An empty activity reports only that it continues.
	Report(activity string)
	// Delta shows a piece of the answer in progress.
	Delta(d model.Delta)
}

// Pending is a request in progress.
type Pending interface {
	// Wait returns the answer. The error is [ErrLost] if the attempt is over.
	Wait(ctx context.Context) (Reply, error)
}

// Reply is the answer to a request. At most one of Boundary, Parked, Approved and Ended is set.
type Reply struct {
	Ordinal int
	// Boundary is set when no call is open any more.
	Boundary *Boundary
	Parked   bool
	Approved bool // of an Ask
	Ended    bool
}

// Boundary is what was added to the transcript since the last message that the worker has.
type Boundary struct {
	// Results are the results of calls that this attempt did not close itself.
	Results []tree.ToolResult
	// ID and Ordinal are those of the tool message; zero if there is none.
	ID      tree.MessageID
	Ordinal int
	// News follows the tool message: first user messages, then ends of background children.
	News []tree.Message
	// Source is the outside party that the run acts for; empty: none, or the same as before.
	Source string
	// BudgetSpent says why the session's budget is spent; empty: it is not.
	BudgetSpent string
	// BudgetShort means that the budget has nothing left for a call in addition to those in
	// progress.
	BudgetShort bool
}

// Child is a child that a call asks for.
type Child struct {
	Block       int
	Agent       string
	Description string
	Prompt      string
	Model       string
	Resume      tree.TaskID
	Background  bool
	Fork        bool // it sees the run's conversation so far

	Context       []string
	MaxIterations int
	Timeout       time.Duration
	Join          tree.Join
	JoinTimeout   time.Duration

	Command *tool.Command // the child is a command; then of the fields above only Block and Description count
}

// Ending is how a run ends.
type Ending struct {
	Answer    *tree.Message // nil: it failed
	Reason    tree.Reason
	Detail    string // includes the leftovers, if there are any
	Leftovers string // appended to an answer that ends the run
}
