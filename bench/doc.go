// Package bench holds Coppice beside its peers, on one machine and in one run.
//
// cmd/bench is the program that a person starts. It starts each system as a process
// of its own (systems/…, one program each, so that none carries the weight of what
// another links), gives it fresh databases (services), asks it over its standard
// input for workloads (system), and measures from outside what they cost (harness, process).
//
// The work is the same for everybody: a parent that runs spawns a child, the system
// records it, starts it and records its result, and the parent has the result. What
// the child does is nothing. README.md says what each system does for that.
package bench
