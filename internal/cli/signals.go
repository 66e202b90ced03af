package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals makes a process take signals as Main expects it. The first one that asks it to end
// ends ctx; a second one is not caught any more, as after stop. That the terminal is gone asks
// it to end as well, unless it was started to outlive that.
func Signals() (ctx context.Context, stop context.CancelFunc) {
	// A reader of the output that goes away is an error like others: what was begun is
	// still cleaned up. The signal is caught, as programs that are started here would
	// inherit that it is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		ends = append(ends, syscall.SIGHUP)
		// A terminal that closes says so several times: it stays caught.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
