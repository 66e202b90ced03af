// DBOS on PostgreSQL. A parent is a workflow and its children are child workflows, which
// run in the same process and are recorded when they start and when they end.
package main

import "github.com/coppice-run/coppice/bench/system"

func main() { system.Main(&engine{}) }
