package cli

import (
	"context"
	"log/slog"
	"os"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/redact"
)

// service is what a process with everything in it is called in traces and metrics.
const service = "coppice"

// measured is a process that measures itself and knows its secrets.
type instruments struct {
	*assembly.Instruments
	secrets *redact.Redactor
}

// measure makes this process measure itself, as the variables of OpenTelemetry say, and
// take what is known of secrets out of all that it tells. Which secrets are not looked
// for is logged. Call Close at the end.
func (a *app) measure(ctx context.Context, listen string, f redact.Flags, logs slog.Handler, others ...redact.Secret) (*instruments, error) {
	opened, err := f.Open(os.Environ(), others...)
	if err != nil {
		return nil, usagef("%w", err)
	}
	m, err := assembly.Measure(ctx, service, listen, logs, opened.Redactor)
	if err != nil {
		return nil, usagef("%w", err)
	}
	opened.Report(ctx, m.Logger)
	return &instruments{m, opened.Redactor}, nil
}
