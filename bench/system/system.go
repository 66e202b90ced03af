// Package system is what a system under measurement implements, and the protocol
// by which it is driven: a line of JSON in, a line of JSON out.
package system

import (
	"context"
	"time"
)

// System is something that runs tasks. Its methods are called one after another.
type System interface {
	// Start brings the system up, on stores that are running and empty, until it
	// takes tasks.
	Start(ctx context.Context, at Setup) error
	// Spawn has one running parent spawn n children, each after the result of the
	// one before, and gives the time from each spawn to its result, as the parent
	// sees it.
	Spawn(ctx context.Context, n int) ([]time.Duration, error)
	// FanOut has one parent spawn n children at once and join all their results. It
	// returns when the parent has ended.
	FanOut(ctx context.Context, n int) error
	// Independent runs n tasks that have nothing to do with each other, and returns
	// when all have their result.
	Independent(ctx context.Context, n int) error
	// Stop ends all that Start has started.
	Stop(ctx context.Context) error
}

// Checked is a system whose parents end whether their children have run or not. It is
// asked after each Spawn and FanOut, when the time is not measured any more.
type Checked interface {
	// Check fails if not all children of the last parent have run.
	Check(ctx context.Context) error
}

// Setup is what a system is given.
type Setup struct {
	Dir      string `json:"dir"`      // a directory of its own, also for temporary files
	Redis    string `json:"redis"`    // host:port of a Redis of its own; empty if it needs none
	Postgres string `json:"postgres"` // URL of an empty database of its own; empty if it needs none
}

// Slots is how many tasks a system runs at once, where it has such a limit and
// nothing of its own speaks for another.
const Slots = 100

// Verbs of requests.
const (
	VerbStart       = "start"
	VerbSpawn       = "spawn"
	VerbFanOut      = "fanout"
	VerbIndependent = "independent"
	VerbStop        = "stop"
)

// Request asks a system to do something.
type Request struct {
	Verb  string `json:"verb"`
	N     int    `json:"n,omitempty"`
	Setup Setup  `json:"setup,omitzero"`
}

// Reply says how it went.
type Reply struct {
	Seconds   float64         `json:"seconds"`             // how long it took, as seen inside the system's process
	Latencies []time.Duration `json:"latencies,omitempty"` // of Spawn
	Error     string          `json:"error,omitempty"`
}
