package dispatch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/redistest"
	"github.com/coppice-run/coppice/internal/tree"
)

const pool = "default"

// testTime bounds the duration of a test.
const testTime = 60 * time.Second

// onBoth runs a test on a new embedded Redis and on a new real one.
func onBoth(t *testing.T, test func(t *testing.T, client *redis.Client, bus *Bus)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		client := embedded(t).Client()
		test(t, client, newBus(t, client))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		client := redistest.Start(t).Client()
		test(t, client, newBus(t, client))
	})
}

func embedded(t testing.TB) *Embedded {
	t.Helper()
	e, err := OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
	})
	return e
}

func newBus(t testing.TB, client *redis.Client) *Bus {
	t.Helper()
	bus, err := New(Config{Client: client, Installation: uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	return bus
}

// another returns the bus of another process of the same installation.
func another(bus *Bus) *Bus {
	return &Bus{client: bus.client, reader: newReader(bus.client), keys: bus.keys, log: bus.log, forget: bus.forget}
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// some returns n hints for one session, with epochs from first on.
func some(n int, first int64) []Hint {
	session := tree.SessionID(uuid.New())
	hints := make([]Hint, n)
	for i := range hints {
		hints[i] = Hint{
			Session: session, Task: tree.TaskID(uuid.New()), Epoch: first + int64(i),
		}
	}
	return hints
}

func announce(t testing.TB, bus *Bus, hints []Hint) {
	t.Helper()
	if err := bus.Announce(t.Context(), pool, hints); err != nil {
		t.Fatal(err)
	}
}

func pull(t testing.TB, bus *Bus, consumer string, max int, block time.Duration) []Delivery {
	t.Helper()
	found, err := bus.Pull(t.Context(), pool, consumer, max, block)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func finish(t testing.TB, bus *Bus, found []Delivery) {
	t.Helper()
	if err := bus.Done(t.Context(), pool, ids(found)...); err != nil {
		t.Fatal(err)
	}
}

func wantBacklog(t testing.TB, bus *Bus, want int) {
	t.Helper()
	if n, err := bus.StreamLength(t.Context(), pool); err != nil || n != want {
		t.Errorf("backlog %d, %v; want %d", n, err, want)
	}
}

func ids(found []Delivery) []string {
	var ids []string
	for _, d := range found {
		ids = append(ids, d.ID)
	}
	return ids
}

func hintsOf(found []Delivery) []Hint {
	var hints []Hint
	for _, d := range found {
		hints = append(hints, d.Hint)
	}
	return hints
}

// until repeats a check until it succeeds. The check takes a round trip, so there is no pause.
func until(t testing.TB, ctx context.Context, what string, yes func() bool) {
	t.Helper()
	for !yes() {
		if ctx.Err() != nil {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// listening runs Listen until the test ends, and returns the nudges it gets.
func listening(t *testing.T, bus *Bus) <-chan Nudge {
	t.Helper()
	looks := make(chan Nudge, 1000)
	listen(t, bus, "listener", func(n Nudge) { looks <- n }, func(Interest) {})
	return looks
}

// listen runs Listen until the test ends.
func listen(t *testing.T, bus *Bus, self string, onNudge func(Nudge), onInterest func(Interest)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bus.Listen(ctx, self, onNudge, onInterest) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// nextLook waits for the next nudge.
func nextLook(t *testing.T, ctx context.Context, looks <-chan Nudge) Nudge {
	t.Helper()
	select {
	case got := <-looks:
		return got
	case <-ctx.Done():
		t.Fatal("nobody was told to look at anything")
		return Nudge{}
	}
}

// wantLook waits for a certain nudge, and ignores others before it.
func wantLook(t *testing.T, ctx context.Context, looks <-chan Nudge, want Nudge) {
	t.Helper()
	for {
		select {
		case got := <-looks:
			if got == want {
				return
			}
		case <-ctx.Done():
			t.Fatalf("nobody was told to look at %s", want)
		}
	}
}

// logbook is a log in which a test can wait for messages.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newLogbook() *logbook { return &logbook{more: make(chan struct{}, 1)} }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *logbook) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(message))
}

// waitFor waits until a message has been logged.
func (l *logbook) waitFor(t *testing.T, ctx context.Context, message string) {
	t.Helper()
	for l.count(message) == 0 {
		select {
		case <-l.more:
		case <-ctx.Done():
			t.Fatalf("never logged: %s", message)
		}
	}
}
