// Restate: its server as a process of its own, below this one, which serves handlers. A
// parent is a handler that calls another and waits for the answers. With -version the server
// only says which one it is.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/coppice-run/coppice/bench/system"
)

func main() {
	version := flag.Bool("version", false, "say which server it is")
	flag.Parse()
	if !*version {
		system.Main(&engine{})
		return
	}
	if err := printVersion(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
