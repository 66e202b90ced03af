package cli

import (
	"context"
	"log/slog"
	"os"

	"github.com/coppice-run/coppice/internal/redact"
)

// secrets gives what is known of secrets to all that runs in this process, and a
// logger that tells none. Which are not looked for is logged.
func (a *app) secrets(ctx context.Context, f redact.Flags, to slog.Handler, others ...redact.Secret) (*redact.Redactor, *slog.Logger, error) {
	opened, err := f.Open(os.Environ(), others...)
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	log := slog.New(opened.Handler(to))
	opened.Report(ctx, log)
	return opened.Redactor, log, nil
}
