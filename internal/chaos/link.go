package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Direction is a direction of a link.
type Direction int

// The directions.
const (
	Up   Direction = iota // from the dialling side
	Down                  // to the dialling side
)

// Conditions are the network conditions of a link. The zero value is a perfect network. A link
// never drops part of a stream, as TCP does not: bytes are delayed, or the connection breaks.
type Conditions struct {
	Delay time.Duration // latency of each piece
	Rate  int           // bytes per second in each direction; 0: unlimited
	Block [2]bool       // blocks a direction until the conditions change
	Cut   int64         // each connection breaks after this many more bytes; 0: never
}

// BlackHole returns conditions in which connections are accepted and nothing passes.
func BlackHole() Conditions { return Conditions{Block: [2]bool{true, true}} }

// Link is a TCP proxy in one connection of the installation. It is safe for concurrent use.
type Link struct {
	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu         sync.Mutex
	conditions Conditions
	changed    chan struct{} // closed when the conditions change
	conns      map[*proxiedConn]struct{}
	closed     bool
}

// proxiedConn is one connection through a link.
type proxiedConn struct {
	near, far net.Conn
	ended     chan struct{}
	endOnce   sync.Once
	bytesLeft int64 // bytes until it breaks; 0: never; guarded by the link's mutex
	silenced  bool  // blocked for ever; guarded by the link's mutex
}

// OpenLink listens on a free port and forwards connections to a target.
func OpenLink(ctx context.Context, target string) (*Link, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a link to %s: %w", target, err)
	}
	l := &Link{target: target, listener: listener, changed: make(chan struct{}), conns: map[*proxiedConn]struct{}{}}
	l.pumps.Go(l.accept)
	return l, nil
}

// Addr returns the address to dial.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Set changes the conditions, also for existing connections.
func (l *Link) Set(w Conditions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conditions = w
	for p := range l.conns {
		p.bytesLeft = w.Cut
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Cut breaks all connections and returns their number.
func (l *Link) Cut() int { return l.each((*proxiedConn).close) }

// Silence blocks the existing connections for ever, as if the peer had disappeared, and returns
// their number. Later connections are not affected.
func (l *Link) Silence() int {
	return l.each(func(p *proxiedConn) {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.silenced = true
	})
}

// each calls do for all connections and returns their number.
func (l *Link) each(do func(*proxiedConn)) int {
	l.mu.Lock()
	conns := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, p := range conns {
		do(p)
	}
	return len(conns)
}

// Close breaks everything and waits for all goroutines.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.listener.Close()
	l.Cut()
	l.pumps.Wait()
	return err
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.pumps.Go(func() { l.proxy(near) })
	}
}

// dialTimeout bounds the dialling of the target, which is on this machine.
const dialTimeout = 2 * time.Second

// proxy carries one connection until either side ends it.
func (l *Link) proxy(near net.Conn) {
	p := &proxiedConn{near: near, ended: make(chan struct{})}
	if !l.register(p) {
		p.close()
		return
	}
	defer l.unregister(p)
	if !l.waitOpen(p, Up) {
		p.close()
		return
	}
	far, err := net.DialTimeout("tcp", l.target, dialTimeout)
	if err != nil {
		p.close() // the target is down, so the connection ends
		return
	}
	l.mu.Lock()
	p.far = far
	l.mu.Unlock()
	select {
	case <-p.ended: // closed during the dial
		closeQuietly(far)
		return
	default:
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(p, near, far, Up) })
	pumps.Go(func() { l.pump(p, far, near, Down) })
	pumps.Wait()
	closeQuietly(far)
}

func (l *Link) register(p *proxiedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.bytesLeft = l.conditions.Cut
	l.conns[p] = struct{}{}
	return !l.closed
}

func (l *Link) unregister(p *proxiedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, p)
}

func (p *proxiedConn) close() {
	p.endOnce.Do(func() {
		close(p.ended)
		closeQuietly(p.near)
	})
}

// closeQuietly closes a connection whose errors do not matter.
func closeQuietly(c io.Closer) { c.Close() }

// pumpBytes is the buffer size.
const pumpBytes = 16 << 10

// pump copies one direction. The end of one direction ends the connection: no protocol here
// uses half-closed connections.
func (l *Link) pump(p *proxiedConn, from, to net.Conn, way Direction) {
	defer func() {
		p.close()
		closeQuietly(from)
		closeQuietly(to)
	}()
	buf := make([]byte, pumpBytes)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			pass, whole := l.allowance(p, n)
			if !l.waitOpen(p, way) || !l.waitDelay(p, n) {
				return
			}
			if _, err := to.Write(buf[:pass]); err != nil || !whole {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// allowance returns how many of n bytes may pass before the connection breaks.
func (l *Link) allowance(p *proxiedConn, n int) (pass int, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.bytesLeft == 0:
		return n, true
	case int64(n) < p.bytesLeft:
		p.bytesLeft -= int64(n)
		return n, true
	}
	return int(p.bytesLeft), false
}

// waitOpen waits until a direction is not blocked. It returns false if the connection has
// ended.
func (l *Link) waitOpen(p *proxiedConn, way Direction) bool {
	for {
		l.mu.Lock()
		blocked, changed := p.silenced || l.conditions.Block[way], l.changed
		l.mu.Unlock()
		if !blocked {
			return true
		}
		select {
		case <-changed:
		case <-p.ended:
			return false
		}
	}
}

// waitDelay waits for the latency of n bytes. It returns false if the connection has ended.
func (l *Link) waitDelay(p *proxiedConn, n int) bool {
	l.mu.Lock()
	wait := l.conditions.Delay
	if l.conditions.Rate > 0 {
		wait += time.Duration(n) * time.Second / time.Duration(l.conditions.Rate)
	}
	l.mu.Unlock()
	if wait == 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ended:
		return false
	}
}
