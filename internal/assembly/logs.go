package assembly

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// LogHandler writes the logs of a process as JSON. Durations are formatted as text, because
// numbers would be nanoseconds.
func LogHandler(to io.Writer) slog.Handler {
	return slog.NewJSONHandler(to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(roundDuration(a.Value.Duration()).String())
		}
		return a
	}})
}

// roundDuration rounds a duration to milliseconds, unless it is shorter than one.
func roundDuration(d time.Duration) time.Duration {
	if d.Abs() < time.Millisecond {
		return d
	}
	return d.Round(time.Millisecond)
}

// LogStopping logs that the process is stopping when ctx ends. Call over when the process has
// ended.
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
