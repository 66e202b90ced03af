// floor is what the wire alone allows: parents and workers on open gRPC streams, a
// hint per task on a Redis stream, the state of tasks in a map. Nothing is durable,
// checked or taken over; whatever keeps a promise costs more.
package main

import "github.com/coppice-run/coppice/bench/system"

func main() { system.Main(&loop{}) }
