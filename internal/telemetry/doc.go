// Package telemetry records traces, metrics and logs. It follows the OpenTelemetry semantic
// conventions for generative AI.
//
// Each turn of a session is one trace of the whole tree. The span id of a run is derived from
// the run, so that processes can name it as a parent before it is written. The replica that
// commits the end of a run writes its span, once. The parts of a run (waiting for a worker,
// parked, a lost attempt) are written as they end, by the replica that commits that. Workers
// write the spans of model calls and tool calls.
package telemetry
