package dispatch

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// reader reads over a connection of its own, so that a waiting read can be interrupted: the client
// library waits for an answer even after its context has ended. Only one read may run at a time.
type reader struct {
	options redis.Options
	client  *redis.Client

	mu   sync.Mutex
	conn net.Conn // the latest connection
}

// newReader returns a reader with the settings of a client. It sends nothing.
func newReader(like *redis.Client) *reader {
	r := &reader{options: *like.Options()}
	dial := r.options.Dialer
	r.options.PoolSize, r.options.MinIdleConns = 1, 0
	// The other client receives Redis's maintenance notifications.
	r.options.PushNotificationProcessor = nil
	r.options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	r.options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.conn = conn
		return conn, err
	}
	r.newClient()
	return r
}

// newClient replaces the client, so that the next read opens a new connection.
func (r *reader) newClient() {
	options := r.options
	r.client = redis.NewClient(&options)
}

// read reads, and is interrupted if ctx ends. It fails if the answer takes longer than patience.
// The client gets no deadline of ctx: its connection would time out at that very moment, and
// whether ctx had ended by then would depend on chance.
func (r *reader) read(ctx context.Context, what *redis.XReadGroupArgs, patience time.Duration) ([]redis.XStream, error) {
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	broken := make(chan *time.Timer, 1)
	stop := context.AfterFunc(ctx, func() {
		cancel() // otherwise the client would read again
		broken <- r.breakOff()
	})
	found, err := r.client.XReadGroup(reading, what).Result()
	if !stop() {
		(<-broken).Stop()
		_ = r.client.Close() // the client holds only the connection
		r.newClient()
	}
	return found, err
}

// breakOff interrupts a waiting read. It closes the sending side of the connection, on which Redis
// closes the connection. Hints that Redis had handed to the read by then have arrived, or belong to
// the consumer when the read has ended. If Redis does not react, the connection is closed here
// after breakOffTimeout, unless the returned timer is stopped before.
func (r *reader) breakOff() *time.Timer {
	r.mu.Lock()
	defer r.mu.Unlock()
	conn := r.conn
	hangUp := func() {
		if conn != nil {
			_ = conn.Close()
		}
	}
	late := time.AfterFunc(breakOffTimeout, hangUp)
	if half, can := conn.(interface{ CloseWrite() error }); can {
		_ = half.CloseWrite() // on failure the connection is unusable anyway
	} else {
		hangUp()
	}
	return late
}
