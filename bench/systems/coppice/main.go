// Coppice, as installations of it are run: embedded, one process with SQLite and
// miniredis, or with PostgreSQL, Redis, an orchestrator and a worker, each a process of
// its own. A parent is a root agent whose model gives it tasks to hand out; the model
// takes no time. This process is only the client.
package main

import (
	"flag"

	"github.com/coppice-run/coppice/bench/installation"
	"github.com/coppice-run/coppice/bench/system"
)

func main() {
	kind := flag.String("kind", string(installation.Embedded), "how the parts are put together")
	flag.Parse()
	system.Main(&coppice{kind: installation.Kind(*kind)})
}
