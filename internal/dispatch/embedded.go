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

// Embedded is a Redis inside the process, for when there is only one process, or only ones
// that end with it. It has no port, unless it is given one, and keeps nothing. It works in a testing/synctest bubble.
//
// Unlike a real one it never clears away what was deleted after it had been read and before
// it was done; only somebody else's deletions leave such entries. And to a read of its own client
// that was broken off it may still give a hint, which has to be taken over then.
type Embedded struct {
	server    *miniredis.Miniredis
	listeners []net.Listener
	client    *redis.Client
	serving   sync.WaitGroup
}

// embeddedBuffer is how much may be under way on a connection in each direction.
// Client and server both write before they read, so without a buffer a pipeline
// would never end.
const embeddedBuffer = 1 << 20

// OpenEmbedded starts an empty Redis. Close it.
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

// ServeOn has it serve a listener as well, which is closed with it.
func (e *Embedded) ServeOn(l net.Listener) {
	e.listeners = append(e.listeners, l)
	e.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			e.server.Server().ServeConn(conn)
		}
	})
}

// Client is connected to the embedded Redis; it is closed with it.
func (e *Embedded) Client() *redis.Client { return e.client }

// Close ends the Redis and all use of its client, and waits for that. End a
// Listen first, or it fails.
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
