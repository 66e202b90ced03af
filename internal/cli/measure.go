package cli

import (
	"context"
	"log/slog"
	"os"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/redact"
)

// service is the name of the process in traces and metrics.
const service = "coppice"

// instruments is the telemetry of this process, and its secrets.
type instruments struct {
	*assembly.Instruments
	secrets *redact.Redactor
}

// measure sets up the telemetry of this process from the variables of OpenTelemetry, and removes
// known secrets from everything it writes. It logs which secrets are not looked for. The caller
// calls Close.
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
