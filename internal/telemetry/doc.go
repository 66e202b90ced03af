// Package telemetry makes traces, metrics and logs of what happens, by OpenTelemetry's
// conventions for generative AI.
//
// A tree is one trace for each turn of its session. The span of a run has an id that
// follows from which run it is, so that whoever works below it names it as the parent
// before it is written; it is written once, by the replica that commits the run's end.
// The parts of a run (waiting for a worker, parked, an attempt that was lost) are
// written as they are over, by whoever commits that. Calls of the model and of tools
// are the worker's.
package telemetry
