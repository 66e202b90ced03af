package dispatch

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// TestAPullEndsThoughRedisIsFrozen: Redis accepts connections and does not answer. A Pull whose ctx
// ends does not wait as long for it as another Pull.
func TestAPullEndsThoughRedisIsFrozen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := frozen()
		bus, err := New(Config{Client: client, Installation: uuid.NewString()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := bus.Pull(ctx, pool, "w", 1, time.Hour)
			ended <- err
		}()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		stop()
		stopped := time.Now()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the pull ended with %v", err)
		}
		if took := time.Since(stopped); took > 2*breakOffTimeout {
			t.Errorf("it ended %s after it was told to", took)
		}
		if err := errors.Join(bus.Close(), client.Close()); err != nil {
			t.Error(err)
		}
	})
}

// frozen returns a client of a Redis that accepts data and never answers, in virtual time.
func frozen() *redis.Client {
	return redis.NewClient(&redis.Options{
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // which would look up a name
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go io.Copy(io.Discard, there) // until this side is closed
			return halfway{here}, nil
		},
	})
}

// halfway is a connection of a frozen Redis that does not notice that the other side is closed for
// sending.
type halfway struct{ net.Conn }

func (halfway) CloseWrite() error { return nil }
