package alive

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Times and bounds of the probing side.
const (
	probeTimeout = 500 * time.Millisecond // for one probe, including the wait for a semaphore
	maxProbes    = 64                     // concurrent probes

	// No caller waits for a verification, but the runs of an unverified worker wait longer when
	// it dies. Verifications do not compete with the probes of workers that may be dead.
	verifyTimeout    = 5 * time.Second
	maxVerifications = 64

	// The system closes the connections of a killed process one after another. A worker that
	// still answers just after its stream broke is probed again, soon at first and then less
	// often.
	minProbePause = 20 * time.Millisecond
	maxProbePause = 500 * time.Millisecond

	// The streams of a dead process break at about the same time.
	deathWindow = time.Second

	verifyRetry = 30 * time.Second // pause after a failed verification
)

// Config configures a [Prober].
type Config struct {
	// OnDeath is called once for each worker that was found dead. It must not block. Optional.
	OnDeath func(id string)
	// Dial connects; the default is TCP.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger // optional
}

// Prober tracks the workers that have streams to this process and finds out which of them are
// dead. It is safe for concurrent use.
type Prober struct {
	Config
	deathProbes   semaphore
	verifications semaphore                   // for verify
	spawn         func(func(context.Context)) // starts goroutines that Close waits for
	stop          context.CancelFunc
	running       sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	workers map[endpoint]*Worker
}

// semaphore holds one element for each probe in progress.
type semaphore chan struct{}

// endpoint is a worker and the address to probe it at.
type endpoint struct {
	id   string
	addr netip.AddrPort
}

// NewProber returns a prober without workers. It must be closed.
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

// Close stops all probes and waits until they have ended.
func (p *Prober) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.running.Wait()
}

// Worker is a process that has streams here. A nil Worker cannot be probed.
type Worker struct {
	endpoint
	prober *Prober

	// Guarded by the prober's mutex.
	streams     int
	verified    bool      // it has answered at its address
	verifying   bool      // verification is in progress
	verifyAt    time.Time // earliest time of the next verification
	diedAt      time.Time // when it was found dead; zero: it was not
	probing     bool      // probes are in progress
	waiters     []waiter
	streamBroke chan struct{} // capacity 1: another stream broke
}

// waiter waits for the death of a worker until a deadline.
type waiter struct {
	until time.Time
	do    func()
}

// StreamOpened records a stream of a worker, which claims to respond at a port of the host that
// the stream comes from. On the first stream, and from time to time until it succeeds, the
// prober verifies that in the background. It returns nil if the worker cannot be probed. Call
// StreamClosed when the stream has ended.
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
	w.diedAt = time.Time{} // a worker that opens a stream is alive
	if now := time.Now(); !w.verified && !w.verifying && !now.Before(w.verifyAt) {
		w.verifyAt = now.Add(verifyRetry)
		w.verifying = p.start(w.verify)
	}
	return w
}

// hostOf returns the host that a stream comes from, or the zero Addr if it is unknown. A Unix
// socket is this host.
func hostOf(from net.Addr) netip.Addr {
	switch from := from.(type) {
	case *net.TCPAddr:
		return from.AddrPort().Addr().Unmap()
	case *net.UnixAddr:
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.Addr{}
}

// start runs do in the background unless the prober is closed, and reports whether it did. p.mu
// must be held.
func (p *Prober) start(do func(context.Context)) bool {
	if !p.closed {
		p.spawn(do)
	}
	return !p.closed
}

// StreamClosed records that a stream of the worker has ended.
func (w *Worker) StreamClosed() {
	if w == nil {
		return
	}
	w.prober.mu.Lock()
	defer w.prober.mu.Unlock()
	w.streams--
	w.forgetIfUnused()
}

// forgetIfUnused removes a worker that has no streams and no probes. The prober's mutex must be
// held.
func (w *Worker) forgetIfUnused() {
	known := w.prober.workers[w.endpoint] == w // otherwise it was forgotten before, and may be there again
	if known && w.streams == 0 && !w.verifying && !w.probing {
		delete(w.prober.workers, w.endpoint)
	}
}
