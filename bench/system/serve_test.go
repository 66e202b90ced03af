package system_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/bench/system"
)

// fake does as it is told, and fails at independent tasks.
type fake struct {
	dir   string
	stops int
}

func (f *fake) Start(_ context.Context, at system.Setup) error { f.dir = at.Dir; return nil }

func (f *fake) Spawn(_ context.Context, n int) ([]time.Duration, error) {
	return make([]time.Duration, n), nil
}

func (f *fake) FanOut(context.Context, int) error { return nil }

// Check finds children missing.
func (f *fake) Check(context.Context) error { return errors.New("a child is missing") }

func (f *fake) Independent(context.Context, int) error { return errors.New("no hands left") }

func (f *fake) Stop(context.Context) error { f.stops++; return nil }

func TestServe(t *testing.T) {
	t.Parallel()
	var f fake
	var out strings.Builder
	in := `{"verb":"start","setup":{"dir":"/here"}} {"verb":"spawn","n":2} {"verb":"independent","n":1} {"verb":"fanout","n":1} {"verb":"sing"} {"verb":"stop"}`
	if err := system.Serve(t.Context(), &f, strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if f.dir != "/here" {
		t.Errorf("it was started in %q", f.dir)
	}
	replies := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{"seconds", `"latencies":[0,0],"error":"a child is missing"`, "no hands left", "a child is missing", "nobody knows how to", "seconds"} {
		if i >= len(replies) || !strings.Contains(replies[i], want) {
			t.Fatalf("reply %d is not about %q: %q", i, want, replies)
		}
	}
	if f.stops != 1 {
		t.Errorf("it was stopped %d times", f.stops)
	}
	in, _, _ = strings.Cut(in, `{"verb":"stop"}`)
	if err := system.Serve(t.Context(), &f, strings.NewReader(in), &out); err != nil || f.stops != 2 {
		t.Errorf("left behind, it was stopped %d times, %v", f.stops, err)
	}
	if err := system.Serve(t.Context(), &f, strings.NewReader(`{"verb":`), &out); err == nil || f.stops != 2 {
		t.Error("half a request is taken for none")
	}
}
