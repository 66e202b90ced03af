// Package drill breaks an installation at a chosen moment of a tree of agents, to see what
// comes of the tree.
//
// A [Site] is an installation that is made for one tree: a Redis in this process, and an
// orchestrator and a worker in processes of their own. Between those two is a [Gate], which
// sees each [Step] of each run. At the [Moment] that a [Fault] names it kills one of them, cuts
// the link between them or empties Redis: before the orchestrator hears of the step, or after
// it has stored it and before the worker hears of that. What is killed is started again.
//
// [Plan] chooses faults for a tree of which a run without any has been seen.
package drill
