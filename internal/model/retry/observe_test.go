package retry_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/model/retry"
)

// notes are what an observer was told.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) Tried(provider, name string, kind model.ErrorKind, failed bool) {
	if failed {
		n.note("%s/%s: %s", provider, name, kind)
		return
	}
	n.note("%s/%s: answered", provider, name)
}

func (n *notes) Queued(provider, name string, took time.Duration) {
	n.note("%s/%s: a turn, after some time: %t", provider, name, took > 0)
}

func (n *notes) Paused(provider, name string, took time.Duration) {
	n.note("%s/%s: a pause, of at least half of the first: %t", provider, name, took >= 250*time.Millisecond)
}

// TestObserving: each try is told of, and each wait that was one.
func TestObserving(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		errors []error
		want   []string
	}{
		{"no failure", nil, []string{"acme/oak: answered"}},
		{"a failure that is waited out", []error{fails(model.ErrorBroken, 0)}, []string{
			"acme/oak: broken off", "acme/oak: a pause, of at least half of the first: true", "acme/oak: answered",
		}},
		{"a limit", []error{fails(model.ErrorRateLimited, time.Minute)}, []string{
			"acme/oak: rate limited", "acme/oak: a pause, of at least half of the first: true",
			"acme/oak: a turn, after some time: true", "acme/oak: answered",
		}},
		{"a failure for good", []error{fails(model.ErrorAuth, 0)}, []string{"acme/oak: not authorised"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var n notes
				m := patient(t, &flaky{errors: test.errors}, retry.Config{
					Limiter: ratelimit.New(slog.New(slog.DiscardHandler)), Bucket: func(string) string { return "b" },
					Provider: "acme", Observer: &n,
				})
				_, err := m.Generate(t.Context(), &model.Request{Model: "oak"}, nil)
				if last := test.want[len(test.want)-1]; (err == nil) != (last == "acme/oak: answered") {
					t.Errorf("the error is %v", err)
				}
				if !slices.Equal(n.lines, test.want) {
					t.Errorf("told %q, want %q", n.lines, test.want)
				}
			})
		})
	}
}
