package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// readCoalescer are looks at a few rows, each found by its key, of callers who know nothing of
// one another. A round trip costs more than what such a look finds: while as many as
// glancers are under way, others wait, and go together. Each sees what was committed
// before it was asked for, since it is sent after that.
type readCoalescer struct {
	db       *postgres
	mu       sync.Mutex // guards what is below
	waiting  []*pendingRead
	inFlight int
}

// maxReadTrips is how many round trips are made at once, and maxReadsPerTrip how many looks
// one of them makes.
const (
	maxReadTrips    = 2
	maxReadsPerTrip = 64
)

// pendingRead is what one caller looks up.
type pendingRead struct {
	lookups   []lookup
	abandoned atomic.Bool // nobody waits for it any more
	done      chan error  // holds one

	hasRows   bool // a row was read
	remaining int  // queries that are not over
}

// errReadAlone says that a look has to be made by itself: one that was sent with it failed, or
// it did before it had read anything.
var errReadAlone = errors.New("nothing was read")

// loadCoalesced is load of a few rows that are found by their keys.
func (db *postgres) loadCoalesced(ctx context.Context, lookups ...lookup) error {
	g := &db.coalescer
	look := g.enqueue(lookups)
	if look == nil {
		defer g.sendWaiting()
		return db.loadWithin(ctx, reachTimeout, lookups...)
	}
	select {
	case err := <-look.done:
		if errors.Is(err, errReadAlone) {
			return db.loadWithin(ctx, reachTimeout, lookups...)
		}
		return err
	case <-ctx.Done():
		look.abandoned.Store(true)
		return ctx.Err()
	}
}

// enqueue queues a look; nil says that the caller may look at once, and has to call goOn then.
func (g *readCoalescer) enqueue(lookups []lookup) *pendingRead {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight < maxReadTrips {
		g.inFlight++
		return nil
	}
	look := &pendingRead{lookups: lookups, done: make(chan error, 1)}
	g.waiting = append(g.waiting, look)
	return look
}

// sendWaiting looks for those who wait, until nobody does.
func (g *readCoalescer) sendWaiting() {
	looks := g.takeWaiting()
	if looks == nil {
		return
	}
	go func() {
		for ; looks != nil; looks = g.takeWaiting() {
			g.readAll(looks)
		}
	}()
}

// takeWaiting gives the next that wait; nil says that there are none, and that the caller is
// not counted any more.
func (g *readCoalescer) takeWaiting() []*pendingRead {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxReadsPerTrip)
	if n == 0 {
		g.waiting = nil
		g.inFlight--
		return nil
	}
	looks := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	return looks
}

// readAll makes looks in one round trip. What fails in it fails nobody else.
func (g *readCoalescer) readAll(looks []*pendingRead) {
	ctx := context.Background()
	err := g.send(ctx, looks)
	if errors.As(err, &transientError{}) {
		err = unreachable(err)
		g.db.logUnreachable(ctx, err)
	}
	for _, look := range looks {
		switch {
		case err == nil || look.hasRows && look.remaining == 0:
			look.done <- nil
		case look.hasRows:
			look.done <- err
		default:
			look.done <- errReadAlone
		}
	}
}

// send makes the round trip.
func (g *readCoalescer) send(ctx context.Context, looks []*pendingRead) error {
	batch := &pgx.Batch{}
	for _, look := range looks {
		if look.abandoned.Load() {
			continue
		}
		before := batch.Len()
		err := g.db.queue(batch, new([]byte), func() { look.hasRows = true }, func() { look.remaining-- }, look.lookups)
		if err != nil {
			return err
		}
		look.remaining = batch.Len() - before
	}
	return g.db.roundTrip(ctx, reachTimeout, batch)
}
