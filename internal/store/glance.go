package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// glances are looks at a few rows, each found by its key, of callers who know nothing of
// one another. A round trip costs more than what such a look finds: while as many as
// glancers are under way, others wait, and go together. Each sees what was committed
// before it was asked for, since it is sent after that.
type glances struct {
	db       *postgres
	mu       sync.Mutex // guards what is below
	waiting  []*glance
	glancers int
}

// glancersMost is how many round trips are made at once, and glancesMost how many looks
// one of them makes.
const (
	glancersMost = 2
	glancesMost  = 64
)

// glance is what one caller looks up.
type glance struct {
	lookups []lookup
	gone    atomic.Bool // nobody waits for it any more
	done    chan error  // holds one

	begun bool // a row was read
	left  int  // queries that are not over
}

// errAlone says that a look has to be made by itself: one that was sent with it failed, or
// it did before it had read anything.
var errAlone = errors.New("nothing was read")

// glance is load of a few rows that are found by their keys.
func (db *postgres) glance(ctx context.Context, lookups ...lookup) error {
	g := &db.glances
	look := g.wait(lookups)
	if look == nil {
		defer g.goOn()
		return db.look(ctx, reachPatience, lookups...)
	}
	select {
	case err := <-look.done:
		if errors.Is(err, errAlone) {
			return db.look(ctx, reachPatience, lookups...)
		}
		return err
	case <-ctx.Done():
		look.gone.Store(true)
		return ctx.Err()
	}
}

// wait queues a look; nil says that the caller may look at once, and has to call goOn then.
func (g *glances) wait(lookups []lookup) *glance {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.glancers < glancersMost {
		g.glancers++
		return nil
	}
	look := &glance{lookups: lookups, done: make(chan error, 1)}
	g.waiting = append(g.waiting, look)
	return look
}

// goOn looks for those who wait, until nobody does.
func (g *glances) goOn() {
	looks := g.take()
	if looks == nil {
		return
	}
	go func() {
		for ; looks != nil; looks = g.take() {
			g.look(looks)
		}
	}()
}

// take gives the next that wait; nil says that there are none, and that the caller is
// not counted any more.
func (g *glances) take() []*glance {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), glancesMost)
	if n == 0 {
		g.waiting = nil
		g.glancers--
		return nil
	}
	looks := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	return looks
}

// look makes looks in one round trip. What fails in it fails nobody else.
func (g *glances) look(looks []*glance) {
	ctx := context.Background()
	err := g.send(ctx, looks)
	if errors.As(err, &passing{}) {
		err = unreached(err)
		g.db.sayUnreached(ctx, err)
	}
	for _, look := range looks {
		switch {
		case err == nil || look.begun && look.left == 0:
			look.done <- nil
		case look.begun:
			look.done <- err
		default:
			look.done <- errAlone
		}
	}
}

// send makes the round trip.
func (g *glances) send(ctx context.Context, looks []*glance) error {
	batch := &pgx.Batch{}
	for _, look := range looks {
		if look.gone.Load() {
			continue
		}
		before := batch.Len()
		err := g.db.queue(batch, new([]byte), func() { look.begun = true }, func() { look.left-- }, look.lookups)
		if err != nil {
			return err
		}
		look.left = batch.Len() - before
	}
	return g.db.exchange(ctx, reachPatience, batch)
}
