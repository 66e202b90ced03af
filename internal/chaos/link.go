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

// Direction is one of the two ways through a link.
type Direction int

// The directions.
const (
	Up   Direction = iota // from the one who dialled
	Down                  // to the one who dialled
)

// Weather is what a link does to the bytes that pass. The zero value is fair.
// Like a network, a link never loses a part of what it delivers later: bytes come
// late, or the connection breaks.
type Weather struct {
	Delay time.Duration // each piece is late by this
	Rate  int           // bytes a second in each direction; 0: no bound
	Block [2]bool       // nothing gets through in a direction until the weather changes
	Cut   int64         // each connection breaks after so many more bytes; 0: never
}

// BlackHole is the weather in which connections are taken and nothing passes.
func BlackHole() Weather { return Weather{Block: [2]bool{true, true}} }

// Link is a TCP proxy in one connection of the installation. Its methods may be
// called at once.
type Link struct {
	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu      sync.Mutex
	weather Weather
	changed chan struct{} // closed when the weather changes
	conns   map[*passage]struct{}
	closed  bool
}

// passage is one connection through a link.
type passage struct {
	near, far net.Conn
	ended     chan struct{}
	end       sync.Once
	left      int64 // bytes until it breaks; 0: it does not; guarded by the link
	hushed    bool  // nothing gets through any more; guarded by the link
}

// OpenLink listens on a free port and passes connections on to a target.
func OpenLink(ctx context.Context, target string) (*Link, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a link to %s: %w", target, err)
	}
	l := &Link{target: target, listener: listener, changed: make(chan struct{}), conns: map[*passage]struct{}{}}
	l.pumps.Go(l.accept)
	return l, nil
}

// Addr is where to dial.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Set changes the weather, also for the connections there are.
func (l *Link) Set(w Weather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weather = w
	for p := range l.conns {
		p.left = w.Cut
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Cut breaks all connections there are and says how many.
func (l *Link) Cut() int { return l.each((*passage).close) }

// Hush lets nothing through the connections there are, as if the other side were gone without a
// word. Those that come later are not affected.
func (l *Link) Hush() int {
	return l.each(func(p *passage) {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.hushed = true
	})
}

// each does something to all connections there are and says how many.
func (l *Link) each(do func(*passage)) int {
	l.mu.Lock()
	conns := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, p := range conns {
		do(p)
	}
	return len(conns)
}

// Close breaks everything and waits until nothing is left.
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
		l.pumps.Go(func() { l.pass(near) })
	}
}

// dialPatience bounds how long a link tries to reach its target; all of them are
// on this machine.
const dialPatience = 2 * time.Second

// pass carries one connection until one of its sides ends it.
func (l *Link) pass(near net.Conn) {
	p := &passage{near: near, ended: make(chan struct{})}
	if !l.join(p) {
		p.close()
		return
	}
	defer l.leave(p)
	if !l.clear(p, Up) {
		p.close()
		return
	}
	far, err := net.DialTimeout("tcp", l.target, dialPatience)
	if err != nil {
		p.close() // the target is down, and so is the connection
		return
	}
	l.mu.Lock()
	p.far = far
	l.mu.Unlock()
	select {
	case <-p.ended: // closed while it was dialled
		shut(far)
		return
	default:
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(p, near, far, Up) })
	pumps.Go(func() { l.pump(p, far, near, Down) })
	pumps.Wait()
	shut(far)
}

func (l *Link) join(p *passage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.left = l.weather.Cut
	l.conns[p] = struct{}{}
	return !l.closed
}

func (l *Link) leave(p *passage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, p)
}

func (p *passage) close() {
	p.end.Do(func() {
		close(p.ended)
		shut(p.near)
	})
}

// shut closes a connection that has nothing left to lose.
func shut(c io.Closer) { c.Close() }

// pumpBytes is how much passes at once.
const pumpBytes = 16 << 10

// pump carries bytes one way. The end of one way is the end of the connection:
// nobody here speaks over half-closed ones.
func (l *Link) pump(p *passage, from, to net.Conn, way Direction) {
	defer func() {
		p.close()
		shut(from)
		shut(to)
	}()
	buf := make([]byte, pumpBytes)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			pass, whole := l.share(p, n)
			if !l.clear(p, way) || !l.late(p, n) {
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

// share says how many of n bytes may pass before the connection breaks.
func (l *Link) share(p *passage, n int) (pass int, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.left == 0:
		return n, true
	case int64(n) < p.left:
		p.left -= int64(n)
		return n, true
	}
	return int(p.left), false
}

// clear waits until a direction is open. It reports false if the connection has
// ended.
func (l *Link) clear(p *passage, way Direction) bool {
	for {
		l.mu.Lock()
		blocked, changed := p.hushed || l.weather.Block[way], l.changed
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

// late waits as long as n bytes take. It reports false if the connection has ended.
func (l *Link) late(p *passage, n int) bool {
	l.mu.Lock()
	wait := l.weather.Delay
	if l.weather.Rate > 0 {
		wait += time.Duration(n) * time.Second / time.Duration(l.weather.Rate)
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
