package dispatch

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestAnOutageIsNoFlood: a subscription tries again several times a second while Redis is away,
// and says so once.
func TestAnOutageIsNoFlood(t *testing.T) {
	t.Parallel()
	dials := make(chan struct{})
	client := redis.NewClient(&redis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case dials <- struct{}{}:
			case <-ctx.Done():
			}
			return nil, errors.New("refused")
		},
		DialerRetries: 1,
	})
	log := newLogbook()
	bus := newBus(t, client)
	bus.log = log.logger()
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() {
		ended <- bus.Listen(ctx, "listener", func(Nudge) { t.Error("subscribed to nothing") }, func(Interest) {})
	}()
	for range 6 {
		<-dials
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := log.count("the subscription was interrupted"); n != 1 {
		t.Errorf("the same outage was logged %d times", n)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// TestFailuresAreLoggedAgain: another message is logged at once, and the same one after a while.
func TestFailuresAreLoggedAgain(t *testing.T) {
	t.Parallel()
	var f failureLog
	begun := time.Now()
	for i, c := range []struct {
		message string
		after   time.Duration
		want    bool
	}{
		{"a", 0, true},
		{"a", failureLogInterval - 1, false},
		{"b", failureLogInterval - 1, true},
		{"a", failureLogInterval, true},
		{"b", failureLogInterval, false},
	} {
		if got := f.isNew(c.message, begun.Add(c.after)); got != c.want {
			t.Errorf("message %d was logged: %t", i, got)
		}
	}
}
