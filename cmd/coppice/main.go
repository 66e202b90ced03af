// Command coppice runs trees of LLM agents, in its own process or at an orchestrator.
package main

import (
	"os"

	"github.com/coppice-run/coppice/internal/cli"
)

func main() {
	ctx, stop := cli.Signals()
	os.Exit(cli.Main(ctx, cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Interrupt: stop,
	}))
}
