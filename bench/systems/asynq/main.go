// asynq on Redis. A parent is a task that enqueues others and takes their results
// from a list in Redis, to which each pushes its own: asynq has no joins.
package main

import "github.com/coppice-run/coppice/bench/system"

func main() { system.Main(&queue{}) }
