package orchestrator_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/orchestrator"
)

// logs are what a service has logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// run drives a service until stop is called, and gives what it logs.
func run(t *testing.T, svc *orchestrator.Service) (written *logs, stop func()) {
	t.Helper()
	written = &logs{}
	svc.Logger = slog.New(slog.NewTextHandler(written, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := svc.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return written, func() {
		cancel()
		running.Wait()
	}
}

// TestMissingWorkersAreTold lets time pass with a run that waits, or none, and with a worker
// or without. The replica's clock is an hour behind the database's.
func TestMissingWorkersAreTold(t *testing.T) {
	t.Parallel()
	type step struct {
		what  string
		pause time.Duration
		want  int // warnings until then
	}
	for name, steps := range map[string][]step{
		"nothing waits":               {{"", 2 * time.Minute, 0}},
		"a run waits":                 {{"create", 2 * time.Second, 0}, {"", 5 * time.Second, 1}, {"", 50 * time.Second, 1}, {"", 10 * time.Second, 2}},
		"a run waits for its worker":  {{"come", time.Minute, 0}, {"create", 2 * time.Minute, 0}},
		"a worker is soon there":      {{"create", 3 * time.Second, 0}, {"come", 2 * time.Minute, 0}},
		"a worker leaves":             {{"come", time.Minute, 0}, {"create", time.Minute, 0}, {"go", 4 * time.Second, 0}, {"", 4 * time.Second, 1}},
		"a worker leaves for a while": {{"come", time.Minute, 0}, {"create", time.Minute, 0}, {"go", 3 * time.Second, 0}, {"come", 2 * time.Minute, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				svc := setup(t)
				svc.Now = func() time.Time { return time.Now().Add(-time.Hour) }
				written, stop := run(t, svc)
				defer stop()
				leave := func() {}
				for i, s := range steps {
					switch s.what {
					case "create":
						plant(t, svc)
					case "come":
						leave = svc.OpenStream()
					case "go":
						leave()
					}
					time.Sleep(s.pause)
					synctest.Wait()
					if n := strings.Count(written.String(), "there is no worker"); n != s.want {
						t.Errorf("after step %d it was said %d times, want %d:\n%s", i+1, n, s.want, written)
					}
				}
			})
		})
	}
}
