package dispatch

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
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
	log := listenInVain(t, client, func(context.Context, *logbook) {
		for range 6 {
			<-dials
		}
	})
	if n := log.count("the subscription was interrupted"); n != 1 {
		t.Errorf("the same outage was logged %d times", n)
	}
}

// TestFailuresAreLoggedAgain once the last message with the same text is old.
func TestFailuresAreLoggedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f FailureLog
		for i, c := range []struct {
			message string
			after   time.Duration // since the step before
			want    bool
		}{
			{"a", 0, true},
			{"a", FailureLogInterval - 1, false},
			{"b", 0, true},
			{"a", 1, true},
			{"b", 0, false},
		} {
			time.Sleep(c.after)
			if got := f.IsNew(c.message); got != c.want {
				t.Errorf("message %d was logged: %t", i, got)
			}
		}
	})
}
