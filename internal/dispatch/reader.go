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
	r.renew()
	return r
}

// renew begins anew with another connection.
func (r *reader) renew() {
	options := r.options
	r.client = redis.NewClient(&options)
}

// read reads, and is broken off if ctx ends; an answer that takes longer than patience has it fail.
// The client knows nothing of a deadline of ctx: its connection would time out at that moment, and
// whether ctx had ended by then would be chance.
func (r *reader) read(ctx context.Context, what *redis.XReadGroupArgs, patience time.Duration) ([]redis.XStream, error) {
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	broken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(broken)
		cancel() // or the client reads again
		r.breakOff()
	})
	found, err := r.client.XReadGroup(reading, what).Result()
	if !stop() {
		<-broken
		_ = r.client.Close() // it has nothing but the connection
		r.renew()
	}
	return found, err
}

// breakOff ends a read that waits: Redis is told that nothing more will be asked on its
// connection, and closes it. Whatever it had given to the read by then has come, or is its
// consumer's when the read has ended.
func (r *reader) breakOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if half, can := r.conn.(interface{ CloseWrite() error }); can {
		_ = half.CloseWrite() // or the connection is of no use any more
	} else if r.conn != nil {
		_ = r.conn.Close()
	}
}
