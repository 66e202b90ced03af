package assembly

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// Logs writes what a process logs, as JSON. Durations are text, as people write them: as
// numbers they would be nanoseconds, which nobody expects.
func LogHandler(to io.Writer) slog.Handler {
	return slog.NewJSONHandler(to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(roundDuration(a.Value.Duration()).String())
		}
		return a
	}})
}

// brief leaves out of a duration what is less than a millisecond, unless it is all there is.
func roundDuration(d time.Duration) time.Duration {
	if d.Abs() < time.Millisecond {
		return d
	}
	return d.Round(time.Millisecond)
}

// SayStopping logs that a process was told to stop, once ctx ends. Call over when the process
// has ended, told to or not.
func LogStopping(ctx context.Context, log *slog.Logger) (over func()) {
	said := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(said)
		log.InfoContext(ctx, "stopping")
	})
	return func() {
		if !forget() {
			<-said
		}
	}
}
