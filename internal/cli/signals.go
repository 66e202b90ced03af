package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals handles signals as Main expects it. The first signal that asks the process to end, ends
// ctx. A second one ends the process at once, as after stop. A closed terminal counts as such a
// signal, unless the process was started to survive that.
func Signals() (ctx context.Context, stop context.CancelFunc) {
	// When the reader of the output is gone, writes fail with EPIPE and the command still cleans up.
	// SIGPIPE is caught and not ignored, because child processes would inherit that it is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		ends = append(ends, syscall.SIGHUP)
		// A terminal that closes sends several SIGHUPs, so the signal stays caught.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
