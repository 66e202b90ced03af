package jaegertest

import "github.com/coppice-run/coppice/internal/otlptest"

// Draw draws.
func Draw(_ []otlptest.Span) []byte { return nil }
