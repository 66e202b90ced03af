// Temporal: its server, its worker and its client in this process. A parent is a workflow
// and its children are child workflows. Its data is in SQLite in memory, as that of
// "temporal server start-dev" is, which keeps nothing over a restart; with -file it is in
// a file. With -tuned the server and the worker have what makes them fast on one machine.
package main

import (
	"flag"

	"github.com/coppice-run/coppice/bench/system"
)

func main() {
	var e engine
	flag.BoolVar(&e.tuned, "tuned", false, "settings for speed")
	flag.BoolVar(&e.file, "file", false, "keep what is promised over a restart")
	flag.Parse()
	system.Main(&e)
}
