package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"google.golang.org/grpc/test/bufconn"
)

// Embedded is a Redis inside the process, for an installation of one process, or of processes that
// end with it. It stores nothing on disk, and has no port unless ServeOn gives it one. It works in
// a testing/synctest bubble.
//
// It differs from a real Redis in two ways. It never clears away entries that were deleted after
// they had been read and before they were done; only deletions by other programs leave such
// entries. And it may still hand a hint to an interrupted read of its own client; the hint then has
// to be taken over.
type Embedded struct {
	server    *miniredis.Miniredis
	listeners []net.Listener
	client    *redis.Client
	serving   sync.WaitGroup
}

// embeddedBuffer is the size of a connection's buffer in each direction. Client and server both
// write before they read, so without a buffer a pipeline would block for ever.
const embeddedBuffer = 1 << 20

// OpenEmbedded starts an empty Redis. The caller has to close it.
func OpenEmbedded() (*Embedded, error) {
	e, pipes := &Embedded{server: miniredis.NewMiniRedis()}, bufconn.Listen(embeddedBuffer)
	first, err := e.server.Dial() // starts it without a port
	if err != nil {
		return nil, fmt.Errorf("starting the embedded Redis: %w", err)
	}
	if err := first.Close(); err != nil {
		return nil, fmt.Errorf("starting the embedded Redis: %w", err)
	}
	e.ServeOn(pipes)
	e.client = redis.NewClient(&redis.Options{
		Addr: "embedded", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return pipes.DialContext(ctx)
		},
		ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return e, nil
}

// ServeOn makes the Redis serve another listener. Close closes the listener.
func (e *Embedded) ServeOn(l net.Listener) {
	e.listeners = append(e.listeners, l)
	e.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the listener was closed
			}
			e.server.Server().ServeConn(conn)
		}
	})
}

// Client returns a client of the embedded Redis. Close closes it.
func (e *Embedded) Client() *redis.Client { return e.client }

// Close stops the Redis, closes its client, and waits for both. End a Listen first, because it
// fails otherwise.
func (e *Embedded) Close() error {
	err := e.client.Close()
	for _, l := range e.listeners {
		err = errors.Join(err, l.Close())
	}
	e.serving.Wait()
	e.server.Close()
	if err != nil {
		return fmt.Errorf("closing the embedded Redis: %w", err)
	}
	return nil
}
