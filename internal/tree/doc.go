// Package tree is the pure core: what a tree of agents is, and what each command
// does to it. It does no I/O and reads no clock.
//
// A [Session] is one tree of tasks and the unit of consistency: its commands are
// decided one after another. A [Task] is a node; what it does from a start to an
// end is a run, and each delivery of a run to a worker is an attempt, fenced by
// a [Token]. The task's row carries its current run:
//
//	          ┌───────────── satisfied / redelivered ───────────┐
//	          ▼                                                 │
//	NEW ──▶ PENDING ── claimed ──▶ RUNNING ── parked ──▶ WAITING┘
//	          │                       │
//	          └───────────┬───────────┘
//	                      ▼
//	   COMPLETED · FAILED(reason) · CANCELLED(reason)    then PENDING again: the next run
//
// A [Command] is decided by [Decide] on a [View], the part of a session that the
// command touches: a command names what it reads, the store loads that, and
// decide changes the view and says what has to be written. There is no second
// place where a state changes; transition.go holds every move.
//
// A run's transcript moves from boundary to boundary: an assistant message opens
// calls, each call is closed exactly once, and when the last one closes, in
// whatever transaction that happens, the tool message is written and the
// task's inbox is taken in. So "what comes next" never depends on who closed
// the last call, and a run can go on from its transcript alone.
//
// # Files
//
// The words:
//
//	task.go               Session, Task, and what of a task belongs to its run or attempt
//	kind.go               kinds, states and reasons; Agent
//	message.go            Message, its blocks, Usage
//	event.go              what watchers see
//	id.go                 ids, a type for each thing
//	limits.go             the caps of a session
//	errors.go             refusals, by name
//	trace.go              where a run hangs in a trace
//
// How a command is decided:
//
//	decide.go             Command and Decide
//	view.go               the part of a session that commands read and change
//	transition.go         every move of a run's state
//	settle.go             who is told of the end of a run; boundaries
//
// Commands of clients:
//
//	session.go            a session is opened; a message is sent
//	history.go            the conversation that a session begins with
//	spawn.go              children, for clients and for calls of a model
//	spawn_refused.go      which children are refused
//	inbox.go              what waits for a task is taken away
//	background.go         who waits for a task goes on
//	cancel.go             a task and all below it end
//	branch.go             a person goes on from a message; forks
//	close.go              a session ends, and is deleted
//	workspace.go          names of workspaces
//
// Commands of workers:
//
//	attempt.go            a run is claimed, and gone on with; whose request counts
//	turn.go               answers and results are stored
//	end.go                a run is parked, given back, or ends
//	join.go               races between children
//	shell.go              commands in the background
//	compact.go            a summary stands for what is older
//	hook.go               what hooks have said
//
// What runs may do, and may take:
//
//	authority.go          what a run may do, from all above it
//	approval.go           a call asks, and is answered
//	denial.go             a call is denied
//	granted.go            what is granted for a session lets go on what asks the same
//	budget.go             what a session may use
//
// What is told of runs, and whether all is well:
//
//	outcome.go            how a run has ended, as its parent's model sees it
//	output.go             what there is to read of a task
//	callback.go           who wants to be called at its end
//	diagnose.go           the rules that every stored session keeps
//	diagnose_approval.go  those of approvals
package tree
