// Command coppice runs trees of LLM agents, and talks to an orchestrator that
// does.
package main

import (
	"os"

	"github.com/coppice-run/coppice/internal/cli"
	"github.com/coppice-run/coppice/internal/sandbox"
)

func main() {
	sandbox.Init()
	ctx, stop := cli.Signals()
	os.Exit(cli.Main(ctx, cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Interrupt: stop,
	}))
}
