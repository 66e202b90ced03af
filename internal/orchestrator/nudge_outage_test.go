package orchestrator

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestNudgesOfAnOutageAreNoFlood: while Redis is away, no commit can be told to other replicas. That
// is said once, and not for each of them.
func TestNudgesOfAnOutageAreNoFlood(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	dials := make(chan struct{})
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			select {
			case dials <- struct{}{}:
			case <-ctx.Done():
			}
			return nil, errors.New("refused")
		},
		DialerRetries: 1, MaxRetries: -1,
	})
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	bus, err := dispatch.New(dispatch.Config{Client: client, Installation: "acme", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Config: Config{Bus: bus, Logger: log}, outbox: newOutbox()}
	ended := make(chan error)
	go func() { ended <- s.sendNudges(ctx) }()
	for range 6 {
		s.outbox.put(store.Commit{Sessions: []store.SessionUpdate{{Session: tree.SessionID(uuid.New())}}})
		<-dials
	}
	stop()
	if err := errors.Join(<-ended, client.Close()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(text.String(), "nudging other replicas failed"); n != 1 {
		t.Errorf("the same outage was logged %d times", n)
	}
}
