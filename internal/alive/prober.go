package alive

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Times and bounds of the side that asks.
const (
	probeTimeout = 500 * time.Millisecond // for one answer, and for the turn to ask
	maxProbes    = 64                     // questions under way

	// Nobody waits until a worker is verified, but runs wait for one that is not; these
	// questions take no turn of those about the dead.
	verifyTimeout    = 5 * time.Second
	maxVerifications = 64

	// The system closes what a killed process had open one after another: a worker that
	// still answers when its stream has just broken is asked again, soon and then less
	// often.
	minProbePause = 20 * time.Millisecond
	maxProbePause = 500 * time.Millisecond

	// The streams of a process that is dead break together, give or take.
	deathWindow = time.Second

	verifyRetry = 30 * time.Second // after it could not be verified
)

// Config says how to ask.
type Config struct {
	// OnDeath is told of each worker that was found dead, once; it must not wait. nil: nobody is.
	OnDeath func(id string)
	// Dial connects; nil: over TCP.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger // nil: nothing is logged
}

// Prober knows the workers that have streams to this process, and finds out which of
// them are dead. Its methods may be called at once.
type Prober struct {
	Config
	deathProbes   semaphore
	verifications semaphore                   // of verifying
	spawn         func(func(context.Context)) // starts what Close waits for
	stop          context.CancelFunc
	running       sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	workers map[endpoint]*Worker
}

// semaphore holds one for each question under way.
type semaphore chan struct{}

// endpoint is a worker, and where it is asked.
type endpoint struct {
	id   string
	addr netip.AddrPort
}

// NewProber gives one that knows nobody. It has to be closed.
func NewProber(c Config) *Prober {
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.OnDeath == nil {
		c.OnDeath = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Prober{Config: c, deathProbes: make(semaphore, maxProbes), verifications: make(semaphore, maxVerifications), stop: cancel, workers: map[endpoint]*Worker{}}
	p.spawn = func(do func(context.Context)) { p.running.Go(func() { do(ctx) }) }
	return p
}

// Close makes nothing be asked any more, and waits until nobody asks.
func (p *Prober) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.running.Wait()
}

// Worker is a process that has streams here. The nil worker is one that can't be asked.
type Worker struct {
	endpoint
	prober *Prober

	// Guarded by the prober.
	streams     int
	verified    bool      // it was heard under its address
	verifying   bool      // that is being found out
	verifyAt    time.Time // when that may be tried again
	diedAt      time.Time // when it was found dead; zero: it was not
	probing     bool      // it is being asked
	waiters     []waiter
	streamBroke chan struct{} // holds one: a further stream broke
}

// waiter wants to know of a worker's death until the time has passed.
type waiter struct {
	until time.Time
	do    func()
}

// StreamOpened notes that a stream is a worker's, which says that it answers at a port of the
// host that the stream comes from. The first time, and from time to time until it is
// true, that is verified beside the caller. It gives nil if nobody could be asked.
// Leave has to be called when the stream has ended.
func (p *Prober) StreamOpened(id string, from net.Addr, port uint32) *Worker {
	host := hostOf(from)
	if !host.IsValid() || port == 0 || port > 1<<16-1 || id == "" || len(id) > maxIDBytes {
		return nil
	}
	at := endpoint{id: id, addr: netip.AddrPortFrom(host, uint16(port))}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[at]
	if w == nil {
		w = &Worker{endpoint: at, prober: p, streamBroke: make(chan struct{}, 1)}
		p.workers[at] = w
	}
	w.streams++
	w.diedAt = time.Time{} // whoever speaks is alive
	if now := time.Now(); !w.verified && !w.verifying && !now.Before(w.verifyAt) {
		w.verifyAt = now.Add(verifyRetry)
		w.verifying = p.start(w.verify)
	}
	return w
}

// hostOf gives the host that a stream comes from, which is this one if it came over a socket
// of its file system; invalid if that is not known.
func hostOf(from net.Addr) netip.Addr {
	switch from := from.(type) {
	case *net.TCPAddr:
		return from.AddrPort().Addr().Unmap()
	case *net.UnixAddr:
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.Addr{}
}

// start does something beside the caller, and reports whether it does. The lock is held.
func (p *Prober) start(do func(context.Context)) bool {
	if !p.closed {
		p.spawn(do)
	}
	return !p.closed
}

// StreamClosed notes that a stream of the worker has ended.
func (w *Worker) StreamClosed() {
	if w == nil {
		return
	}
	w.prober.mu.Lock()
	defer w.prober.mu.Unlock()
	w.streams--
	w.forgetIfUnused()
}

// forgetIfUnused forgets a worker that nobody needs any more. The lock is held.
func (w *Worker) forgetIfUnused() {
	if w.streams == 0 && !w.verifying && !w.probing {
		delete(w.prober.workers, w.endpoint)
	}
}
