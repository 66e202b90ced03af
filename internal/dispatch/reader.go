package dispatch

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// reader reads with a connection of its own, so that a read that waits can be broken off: the
// client library waits for an answer whatever becomes of a context. There is one read at a time.
type reader struct {
	options redis.Options
	client  *redis.Client

	mu   sync.Mutex
	conn net.Conn // the latest
}

// newReader makes a reader with the settings of a client. Nothing is sent yet.
func newReader(like *redis.Client) *reader {
	r := &reader{options: *like.Options()}
	dial := r.options.Dialer
	r.options.PoolSize, r.options.MinIdleConns = 1, 0
	// What Redis has to say of its maintenance the other client hears.
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

// newClient begins anew with another connection.
func (r *reader) newClient() {
	options := r.options
	r.client = redis.NewClient(&options)
}

// read reads, and is broken off if ctx ends; an answer that takes longer than patience has it fail.
// The client knows nothing of a deadline of ctx: its connection would time out at that moment, and
// whether ctx had ended by then would be chance.
func (r *reader) read(ctx context.Context, what *redis.XReadGroupArgs, patience time.Duration) ([]redis.XStream, error) {
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	broken := make(chan *time.Timer, 1)
	stop := context.AfterFunc(ctx, func() {
		cancel() // or the client reads again
		broken <- r.breakOff()
	})
	found, err := r.client.XReadGroup(reading, what).Result()
	if !stop() {
		(<-broken).Stop()
		_ = r.client.Close() // it has nothing but the connection
		r.newClient()
	}
	return found, err
}

// breakOff ends a read that waits: Redis is told that nothing more will be asked on its
// connection, and closes it. Whatever it had given to the read by then has come, or is its
// consumer's when the read has ended. A Redis that says nothing does not close it: this side does,
// unless the timer is stopped before.
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
		_ = half.CloseWrite() // or the connection is of no use any more
	} else {
		hangUp()
	}
	return late
}
