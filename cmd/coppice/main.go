// Command coppice runs trees of LLM agents, and talks to an orchestrator that
// does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/coppice-run/coppice/internal/cli"
	"github.com/coppice-run/coppice/internal/sandbox"
)

func main() {
	sandbox.Init()
	// A reader of the output that goes away is an error like others: what was
	// begun is still cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to stop; a second one is not caught any more.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Interrupt: stop,
	}))
}
