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
package tree
