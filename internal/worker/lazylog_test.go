package worker

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/redact"
)

// TestLateAttributes: what is put together late is there with each record, and without
// the secrets that are known by then.
func TestLateAttributes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	secrets, _ := redact.New()
	made := 0
	log := lazyLogger(slog.New(secrets.Handler(slog.NewTextHandler(&out, nil))).With("worker_id", "w"), func() []any {
		made++
		return []any{"task_id", "t", "token", "a-secret-of-some-length"}
	})
	log.Debug("not logged")
	if made != 0 || out.Len() > 0 {
		t.Errorf("attributes were made %d times for nothing: %q", made, &out)
	}
	secrets.Add(redact.Secret{Name: "TOKEN", Value: "a-secret-of-some-length"})
	log.Info("one")
	log.With("more", 1).WithGroup("g").Info("two", "in", 2)
	log.WithGroup("g").Info("three", "in", 3)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if made != 1 || len(lines) != 3 {
		t.Fatalf("attributes were made %d times for %q", made, lines)
	}
	for i, want := range []string{"msg=one", "more=1 g.in=2", "g.in=3"} {
		for _, part := range []string{want, "worker_id=w task_id=t token=", "TOKEN"} {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%q is without %q", lines[i], part)
			}
		}
		if strings.Contains(lines[i], "a-secret") {
			t.Errorf("a secret is logged: %q", lines[i])
		}
	}
}
