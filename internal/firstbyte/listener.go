// Package firstbyte keeps connections from a server until something has arrived on them.
package firstbyte

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// silenceTimeout is how long a new connection may send nothing. Clients of gRPC send at once.
const silenceTimeout = 20 * time.Second

// Listener makes a listener accept each connection once something has arrived on it. A gRPC server
// that is told to stop first waits for the handshakes of all connections that it has accepted, for up
// to two minutes. A client that is frozen, or a program that only connects, would delay that.
func Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, timeout: silenceTimeout, accepted: make(chan acceptance), done: make(chan struct{}), silent: map[net.Conn]bool{}}
}

type listener struct {
	net.Listener
	timeout  time.Duration
	start    sync.Once
	accepted chan acceptance
	done     chan struct{} // closed by Close

	mu     sync.Mutex
	silent map[net.Conn]bool // connections on which nothing has arrived
	closed bool
}

// acceptance is what Accept returns.
type acceptance struct {
	conn net.Conn
	err  error
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.acceptAll() })
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// acceptAll accepts connections, and awaits the first byte of each, until Close.
func (l *listener) acceptAll() {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			go l.await(c)
		} else if !l.hand(acceptance{err: err}) {
			return
		}
	}
}

// hand lets Accept return something. It returns false after Close.
func (l *listener) hand(a acceptance) bool {
	select {
	case l.accepted <- a:
		return true
	case <-l.done:
		return false
	}
}

// await hands a connection over once something has arrived on it.
func (l *listener) await(c net.Conn) {
	arrived := l.add(c) && awaitByte(c, l.timeout) == nil
	l.remove(c)
	if !arrived || !l.hand(acceptance{conn: c}) {
		_ = c.Close() // nobody uses it
	}
}

// add notes a silent connection. It returns false after Close.
func (l *listener) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.silent[c] = true
	}
	return !l.closed
}

func (l *listener) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.silent, c)
}

// Close closes the listener and the silent connections.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	close(l.done)
	errs := []error{l.Listener.Close()}
	for c := range l.silent {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// awaitByte waits until something has arrived, and leaves it to be read.
func awaitByte(c net.Conn, timeout time.Duration) error {
	socket, is := c.(syscall.Conn)
	if !is {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) (done bool) {
		n, failed = peek(fd)
		return !errors.Is(failed, syscall.EAGAIN)
	})
	switch err := errors.Join(err, failed); {
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	}
	return c.SetReadDeadline(time.Time{})
}

// peek looks at the first byte.
func peek(fd uintptr) (n int, err error) {
	var first [1]byte
	for {
		if n, _, err = syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
