// River on PostgreSQL. A parent is a job that inserts others and joins what becomes
// of them: by the events that River emits once it has recorded a completion, or, with
// -eager, by what children say in memory at the end of their work, which River records
// a moment later.
package main

import (
	"flag"

	"github.com/coppice-run/coppice/bench/system"
)

func main() {
	eager := flag.Bool("eager", false, "join results before they are recorded")
	workers := flag.Int("workers", system.Slots, "jobs that run at once")
	defaults := flag.Bool("default", false, "fetch and poll at River's default intervals")
	flag.Parse()
	system.Main(&queue{eager: *eager, defaults: *defaults, workers: *workers, joins: joins{open: map[int64]chan struct{}{}}})
}
