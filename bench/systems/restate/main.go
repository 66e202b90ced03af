// Restate: its server as a process of its own, below this one, which serves handlers. A
// parent is a handler that calls another and waits for the answers.
package main

import "github.com/coppice-run/coppice/bench/system"

func main() { system.Main(&engine{}) }
