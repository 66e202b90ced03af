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

// logs collects the log of a service.
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

// run runs a service until stop is called, and returns its log.
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

// TestShortageIsLogged lets time pass with or without a waiting run, and with a busy worker, an
// idle one, or none. The replica's clock is an hour behind that of the database.
func TestShortageIsLogged(t *testing.T) {
	t.Parallel()
	type step struct {
		what  string
		pause time.Duration
		none  int // warnings until then that there is no worker
		idle  int // warnings until then that nobody comes for runs
	}
	for name, steps := range map[string][]step{
		"nothing waits":               {{"", 2 * time.Minute, 0, 0}},
		"a run waits":                 {{"create", 2 * time.Second, 0, 0}, {"", 5 * time.Second, 1, 0}, {"", 50 * time.Second, 1, 0}, {"", 10 * time.Second, 2, 0}},
		"a run waits for its worker":  {{"busy", time.Minute, 0, 0}, {"create", 2 * time.Minute, 0, 0}},
		"a worker is soon there":      {{"create", 3 * time.Second, 0, 0}, {"busy", 2 * time.Minute, 0, 0}},
		"a worker leaves":             {{"busy", time.Minute, 0, 0}, {"create", time.Minute, 0, 0}, {"go", 4 * time.Second, 0, 0}, {"", 4 * time.Second, 1, 0}},
		"a worker leaves for a while": {{"busy", time.Minute, 0, 0}, {"create", time.Minute, 0, 0}, {"go", 3 * time.Second, 0, 0}, {"busy", 2 * time.Minute, 0, 0}},
		"nothing waits for a worker":  {{"idle", 10 * time.Second, 0, 0}},
		"nobody comes for a run":      {{"idle", 10 * time.Second, 0, 0}, {"create", 2 * time.Second, 0, 0}, {"", 5 * time.Second, 0, 1}, {"", 50 * time.Second, 0, 1}, {"", 10 * time.Second, 0, 2}},
		"others are come for":         {{"idle", 10 * time.Second, 0, 0}, {"create", 4 * time.Second, 0, 0}, {"claim", 4 * time.Second, 0, 0}, {"claim", 4 * time.Second, 0, 0}},
		"a slot is idle at last":      {{"busy", 10 * time.Second, 0, 0}, {"create", 10 * time.Second, 0, 0}, {"idle", 4 * time.Second, 0, 0}, {"", 4 * time.Second, 0, 1}},
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
						openSession(t, svc)
					case "busy", "idle":
						leave = svc.OpenStream(s.what == "idle")
					case "go":
						leave()
					case "claim":
						svc.Claim()
					}
					time.Sleep(s.pause)
					synctest.Wait()
					none, idle := strings.Count(written.String(), "no worker is connected"), strings.Count(written.String(), "idle slots do not claim")
					if none != s.none || idle != s.idle {
						t.Errorf("after step %d it was said %d and %d times, want %d and %d:\n%s", i+1, none, idle, s.none, s.idle, written)
					}
				}
			})
		})
	}
}
