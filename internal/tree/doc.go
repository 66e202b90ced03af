// Package tree is the pure core: what a tree of agents is, and what each command does to it.
// It does no I/O and reads no clock.
//
// A [Session] is one tree of tasks and the unit of consistency: its commands are decided one
// after another. A [Task] is a node of the tree. A run is one stretch of its work, from a start
// to an end. Each delivery of a run to a worker is an attempt, fenced by a [Token]. The task's
// row holds its current run:
//
//	          ┌───────────── satisfied / redelivered ───────────┐
//	          ▼                                                 │
//	NEW ──▶ PENDING ── claimed ──▶ RUNNING ── parked ──▶ WAITING┘
//	          │                       │
//	          └───────────┬───────────┘
//	                      ▼
//	   COMPLETED · FAILED(reason) · CANCELLED(reason)    then PENDING again: the next run
//
// A [Command] is decided by [Decide] on a [View], the part of a session that the command
// touches. The command names the rows that it reads, the store loads them, and decide changes
// the view, which records what has to be written. All state transitions of a run are in
// transition.go.
//
// A run's transcript moves from boundary to boundary. An assistant message opens calls, and each
// call is closed exactly once. When the last one closes, the same transaction writes the tool
// message and takes in the task's inbox, whoever closed that call. So a run can continue from
// its transcript alone.
//
// # Files
//
// Types:
//
//	task.go               Session and Task, and the parts of a task that belong to its run or attempt
//	kind.go               kinds, states and reasons; Agent
//	message.go            Message, its blocks, Usage
//	event.go              events, as watchers see them
//	id.go                 ids, one type for each kind of thing
//	limits.go             the caps of a session
//	errors.go             the named refusals
//	trace.go              the place of a run in a trace
//	phase.go              what is reported for metrics and traces: phases of runs, refused children
//
// How a command is decided:
//
//	decide.go             Command and Decide
//	view.go               the part of a session that commands read and change
//	transition.go         all state transitions of a run
//	settle.go             what happens at the end of a run; boundaries
//
// Commands of clients:
//
//	session.go            opens a session; sends a message
//	history.go            the imported conversation that a session begins with
//	spawn.go              starts children, for clients and for calls of a model
//	spawn_refused.go      which children are refused
//	inbox.go              clears the inbox of a task; interrupts a run
//	background.go         moves a run to the background
//	cancel.go             ends a task and all tasks below it
//	branch.go             branches, and the bases of forks
//	close.go              closes, deletes and changes a session
//	workspace.go          names of workspaces
//
// Commands of workers:
//
//	attempt.go            claims and reattaches; checks the order of requests
//	turn.go               stores answers and results
//	end.go                parks, ends and redelivers runs; timers
//	join.go               races between children
//	shell.go              commands in the background
//	compact.go            stores a summary of older messages
//	hook.go               stores the results of hooks
//
// Permissions and budgets:
//
//	authority.go          what a run may do, by the authority of all tasks above it
//	approval.go           approvals: a call asks, a person decides
//	denial.go             denied calls
//	granted.go            a grant for the session also decides other open approvals
//	budget.go             what a session may use
//
// Results, and checks:
//
//	outcome.go            how a run has ended, as its parent's model sees it
//	output.go             the readable output of a task
//	callback.go           HTTP callbacks at the end of runs
//	diagnose.go           the rules that every stored session keeps
//	diagnose_approval.go  the rules of approvals
package tree
