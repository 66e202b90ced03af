package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// readCoalescer joins reads of a few rows, each found by its key, of independent callers. A round
// trip costs more than such a read. While maxReadTrips round trips are in flight, further reads
// wait and then go together. Each read sees everything that was committed before it was called,
// because it is sent after that.
type readCoalescer struct {
	db       *postgres
	mu       sync.Mutex // guards what is below
	waiting  []*pendingRead
	inFlight int // round trips
}

// maxReadTrips is how many round trips are in flight at once, and maxReadsPerTrip how many reads
// one of them carries.
const (
	maxReadTrips    = 2
	maxReadsPerTrip = 64
)

// pendingRead is the read of one caller.
type pendingRead struct {
	lookups   []lookup
	abandoned atomic.Bool // the caller does not wait any more
	done      chan error  // buffered: one result

	hasRows   bool // a row was read
	remaining int  // queries that are not complete
}

// errReadAlone says that a read has to be repeated alone: its round trip failed before the read got
// a row.
var errReadAlone = errors.New("nothing was read")

// loadCoalesced is load for a few rows that are found by their keys.
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

// enqueue queues a read. If it returns nil, the caller may read at once and has to call sendWaiting
// afterwards.
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

// sendWaiting sends the waiting reads until there are none.
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

// takeWaiting gives the next waiting reads. nil says that there are none; the caller's round trip
// is then no longer counted as in flight.
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

// readAll makes reads in one round trip. A failure of one read affects no other.
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
