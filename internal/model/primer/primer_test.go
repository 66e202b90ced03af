package primer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/primer"
)

// slow answers: it takes a while to begin, and another to end.
type slow struct {
	begins, ends time.Duration
	fails        int // the first so many requests fail in the place of beginning

	mu    sync.Mutex
	asked []time.Duration
	since time.Time
}

func newSlow(begins, ends time.Duration) *slow {
	return &slow{begins: begins, ends: ends, since: time.Now()}
}

var errNo = errors.New("no")

func (s *slow) Generate(ctx context.Context, _ *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Since(s.since))
	n := len(s.asked)
	s.mu.Unlock()
	emit(model.Delta{Restart: true, Text: "[waiting]"})
	if err := sleep(ctx, s.begins); err != nil {
		return nil, err
	}
	if n <= s.fails {
		return nil, errNo
	}
	emit(model.Delta{Text: "so "})
	return &model.Answer{}, sleep(ctx, s.ends)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// prefixState is a request that begins with a text of so many bytes.
func prefixState(name string, size int) *model.Request {
	return &model.Request{Model: "m", System: name + strings.Repeat(".", size)}
}

// ask makes so many requests, one after another at the same time, and gives what became of them.
func ask(t *testing.T, m model.Model, n int, req *model.Request) <-chan error {
	t.Helper()
	ended := make(chan error, n)
	for range n {
		go func() {
			_, err := m.Generate(t.Context(), req, nil)
			ended <- err
		}()
		synctest.Wait()
	}
	return ended
}

// times are when requests were made.
func (s *slow) times() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.asked)
}

// TestTheFirstGoesFirst: of requests that begin alike one goes alone until its answer begins. Then all go,
// and later ones as long as what they begin with is cached.
func TestTheFirstGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(2*time.Second, time.Minute)
		m := primer.New(s)
		ended := ask(t, m, 3, prefixState("a", 5000))
		time.Sleep(30 * time.Second)
		late := ask(t, m, 1, prefixState("a", 5000))
		time.Sleep(10 * time.Minute)
		again := ask(t, m, 2, prefixState("a", 5000))
		for _, ended := range []<-chan error{ended, ended, ended, late, again, again} {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if s.times() != "[0s 2s 2s 30s 10m30s 10m32s]" {
			t.Errorf("requests are made at %s", s.times())
		}
	})
}

// TestOthersDoNotWait: what begins otherwise, or is too short to be cached, waits for nobody.
func TestOthersDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(2*time.Second, time.Second)
		m := primer.New(s)
		var all []<-chan error
		for _, req := range []*model.Request{
			prefixState("a", 5000), prefixState("b", 5000),
			{Model: "other", System: prefixState("a", 5000).System},
			{Model: "m", System: prefixState("a", 5000).System, Tools: []model.ToolSpec{{Name: "look"}}},
			prefixState("short", 100), prefixState("short", 100),
		} {
			all = append(all, ask(t, m, 1, req))
		}
		for _, ended := range all {
			<-ended
		}
		if s.times() != "[0s 0s 0s 0s 0s 0s]" {
			t.Errorf("requests are made at %s", s.times())
		}
	})
}

// TestTheNextGoesFirst: if the first one fails, another one goes in its place.
func TestTheNextGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(time.Second, time.Minute)
		s.fails = 2
		ended := ask(t, primer.New(s), 5, prefixState("a", 5000))
		failed := 0
		for range 5 {
			if err := <-ended; errors.Is(err, errNo) {
				failed++
			}
		}
		if s.times() != "[0s 1s 2s 3s 3s]" || failed != 2 {
			t.Errorf("requests are made at %s, and %d failed", s.times(), failed)
		}
	})
}

// TestNobodyWaitsLong: a request that does not begin keeps others for ten seconds, and those that
// come later not at all. Whoever waits can be cancelled.
func TestNobodyWaitsLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(time.Hour, 0)
		m := primer.New(s)
		ended := ask(t, m, 2, prefixState("a", 5000))
		time.Sleep(4 * time.Second)
		second := ask(t, m, 1, prefixState("a", 5000))
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error)
		go func() {
			_, err := m.Generate(ctx, prefixState("a", 5000), nil)
			gone <- err
		}()
		synctest.Wait()
		cancel(errNo)
		if err := <-gone; !errors.Is(err, errNo) {
			t.Errorf("who was cancelled is told %v", err)
		}
		time.Sleep(8 * time.Second)
		third := ask(t, m, 1, prefixState("a", 5000))
		for _, ended := range []<-chan error{ended, ended, second, third} {
			<-ended
		}
		if s.times() != "[0s 10s 10s 12s]" {
			t.Errorf("requests are made at %s", s.times())
		}
	})
}

// TestTheFirstIsCancelled: then another one goes.
func TestTheFirstIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(5*time.Second, 0)
		m := primer.New(s)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := m.Generate(ctx, prefixState("a", 5000), nil)
			gone <- err
		}()
		synctest.Wait()
		ended := ask(t, m, 2, prefixState("a", 5000))
		time.Sleep(time.Second)
		cancel(errNo)
		if err := <-gone; !errors.Is(err, errNo) {
			t.Errorf("who was cancelled is told %v", err)
		}
		<-ended
		<-ended
		if s.times() != "[0s 1s 6s]" {
			t.Errorf("requests are made at %s", s.times())
		}
	})
}

// TestForgets: of beginnings that are not cached any more nothing is kept for ever.
func TestForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := primer.New(newSlow(0, 0))
		for i := range 5000 {
			if _, err := m.Generate(t.Context(), prefixState(fmt.Sprint(i), 5000), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := m.Kinds(); n > 2000 {
			t.Errorf("%d beginnings are kept", n)
		}
	})
}
