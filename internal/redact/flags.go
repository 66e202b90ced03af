package redact

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// Flags are the command-line options for secrets.
type Flags struct {
	RedactEnv  []string `env:"COPPICE_REDACT_ENV" placeholder:"NAME,..." help:"Environment variables that contain secrets, in addition to those whose names indicate it."`
	RedactFile string   `env:"COPPICE_REDACT_FILE" placeholder:"FILE" help:"File with additional secrets, one per line, that are removed from everything stored and shown."`
}

// Open returns a Redactor for the secrets of an environment, of the options and from other
// sources. On an error it returns one that knows the other secrets, for logging that error.
func (f Flags) Open(environ []string, others ...Secret) (*Opened, error) {
	o := &Opened{flags: f}
	o.Redactor, o.refused = New(others...)
	for _, name := range f.RedactEnv {
		if !slices.ContainsFunc(environ, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) {
			o.refused = append(o.refused, Refusal{name, "there is no such variable"})
		}
	}
	o.refused = append(o.refused, o.Add(FromEnviron(environ, f.RedactEnv)...)...)
	if f.RedactFile != "" {
		listed, err := FromFile(f.RedactFile)
		if err != nil {
			return o, err
		}
		o.refused = append(o.refused, o.Add(listed...)...)
	}
	return o, nil
}

// Opened is a Redactor with its refused secrets.
type Opened struct {
	*Redactor
	flags   Flags
	refused []Refusal
}

// Report logs the names of the secrets that are not redacted, as a warning if they were named
// explicitly.
func (o *Opened) Report(ctx context.Context, log *slog.Logger) {
	said := map[Refusal]bool{}
	for _, r := range o.refused {
		level := slog.LevelInfo
		if slices.Contains(o.flags.RedactEnv, r.Name) || strings.HasSuffix(r.Name, ofFile) {
			level = slog.LevelWarn
		}
		if !said[r] {
			said[r] = true
			log.Log(ctx, level, "a secret is not redacted", "name", r.Name, "why", r.Why)
		}
	}
}
