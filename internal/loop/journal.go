package loop

import (
	"context"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// Journal is where a run is recorded. Requests are recorded in the order in
// which they are made, and making one never waits for the answer to another; a
// request whose answer is not success makes all later ones fail with [ErrLost].
// Deltas and reports have no answer. All methods may be called at once.
type Journal interface {
	// Append records an assistant message and opens its calls.
	Append(m *tree.Message) Pending
	// StartCall records that a tool which may not run twice is about to run.
	StartCall(block int) Pending
	// CloseCall records the result of a call.
	CloseCall(r tree.ToolResult) Pending
	// DenyCall is CloseCall of a call that the permissions deny, with what it is about and why.
	DenyCall(r tree.ToolResult, argument, why string) Pending
	// Spawn records the children that calls ask for. Waiting for the answer hands the
	// commands among them to whoever carries them on; the others have to be dropped.
	Spawn(children []Child) Pending
	// Await leaves a call open until a task has output.
	Await(block int, task tree.TaskID, timeout time.Duration) Pending
	// Stop ends a task, and closes the call with what it was.
	Stop(block int, task tree.TaskID) Pending
	// Ask asks whether a call may run. If the answer does not say that it is approved,
	// the call waits, or is closed with a denial.
	Ask(block int, argument string, rules []string) Pending
	// Compact records a summary of all messages up to an ordinal.
	Compact(upTo int, summary *tree.Message) Pending
	// Park gives the run back until its open calls are closed.
	Park() Pending
	// End ends the run with an answer, or without one and a reason.
	End(e Ending) Pending
	// StartHooks records what the hooks on the start of the run have come to.
	StartHooks(ran []tree.HookRun) Pending
	// StopHooks ends the run with an answer, unless the hooks on its stop object.
	StopHooks(answer *tree.Message, ran []tree.HookRun, left string) Pending
	// Report says what the run is doing.
	Report(activity string)
	// Delta shows a piece of the answer under way.
	Delta(d model.Delta)
}

// Pending is a request under way.
type Pending interface {
	// Wait gives the answer. The error is [ErrLost] if the attempt is over.
	Wait(ctx context.Context) (Reply, error)
}

// Reply is the answer to a request. At most one of Boundary, Parked, Approved and Ended is set.
type Reply struct {
	// Ordinal is the place of an appended message.
	Ordinal int
	// Boundary is set when no call is open any more.
	Boundary *Boundary
	Parked   bool
	Approved bool // of an Ask
	Ended    bool
}

// Boundary is how the transcript grew while the worker did not look.
type Boundary struct {
	// Results are those of calls that this attempt did not close itself.
	Results []tree.ToolResult
	// ID and Ordinal are those of the tool message; zero if there is none.
	ID      tree.MessageID
	Ordinal int
	// News came after it: user messages, then ends of background children.
	News []tree.Message
	// Source is who outside the run is on behalf of; empty: nobody, or nobody new.
	Source string
	// Spent says how the session's budget is spent; empty if it is not.
	BudgetSpent string
	// Short says that the budget has nothing left for a call beside those under way.
	BudgetShort bool
}

// Child is the child that a call asks for.
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

	Command *tool.Command // the child is a command; of the above only Block and Description count
}

// Ending is how a run ends.
type Ending struct {
	Answer    *tree.Message // nil: it failed
	Reason    tree.Reason
	Detail    string // ends with what is left, if that is anything
	Leftovers string // what the run leaves behind; an answer that ends it gets that as its last line
}
