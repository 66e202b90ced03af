// Package drill injects a fault into an installation at a chosen moment of a tree of agents, to
// show what becomes of the tree.
//
// A [Site] is an installation for one tree: a Redis in this process, and an orchestrator and a
// worker in processes of their own. Between the two is a [Gate], a proxy that sees each [Step]
// of each run. At the [Moment] of a [Fault] it kills one of the processes, cuts the link
// between them or empties Redis. That happens either before the orchestrator receives the step,
// or after it has stored the step and before the worker knows that. Killed processes are
// restarted.
//
// [Plan] chooses faults for a tree after a run without faults.
package drill
