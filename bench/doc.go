// Package bench compares Coppice with similar systems on one machine and in one run.
//
// The program is cmd/bench. It starts each system as a separate process (systems/…, one program
// each, so that no system carries the dependencies of another) and gives it empty databases
// (services). It sends workloads to the standard input of the process (system), and measures
// the cost from outside (harness, process).
//
// The work is the same for all systems. A running parent spawns a child. The system records the
// child, starts it and records its result, and the parent gets the result. The child itself
// does nothing. README.md says how each system implements this.
package bench
