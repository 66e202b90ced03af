package rawconn

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// pair returns both ends of a connection. The tests make them with newConn, because Wrap does
// nothing with the race detector.
func pair(t testing.TB, network string) (ours, theirs *conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	made, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { made.Close(); accepted.Close() })
	return wrapped(t, accepted), wrapped(t, made)
}

func wrapped(t testing.TB, c net.Conn) *conn {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return newConn(c, raw)
}

var networks = []string{"tcp", "unix"}

// TestBytesArrive in both directions at once, more of them than the buffers of the sockets hold.
func TestBytesArrive(t *testing.T) {
	t.Parallel()
	for _, network := range networks {
		ours, theirs := pair(t, network)
		sent := make([]byte, 20<<20)
		rand.Read(sent)
		var all sync.WaitGroup
		plain := theirs.Conn
		for from, to := range map[net.Conn]net.Conn{ours: plain, plain: ours} {
			all.Go(func() {
				if n, err := from.Write(sent); n != len(sent) || err != nil {
					t.Errorf("%s: %T wrote %d, %v", network, from, n, err)
				}
			})
			all.Go(func() {
				got := make([]byte, len(sent))
				if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, sent) {
					t.Errorf("%s: %T read something else, %v", network, to, err)
				}
			})
		}
		all.Wait()
		for _, c := range []net.Conn{ours, plain} {
			if n, err := c.Read(nil); n != 0 || err != nil {
				t.Errorf("%s: %T reads nothing: %d, %v", network, c, n, err)
			}
			if n, err := c.Write(nil); n != 0 || err != nil {
				t.Errorf("%s: %T writes nothing: %d, %v", network, c, n, err)
			}
		}
	}
}

// TestErrorsAreThoseOfNet: whatever ends a read or a write, the error is the same as that of a
// connection of package net.
func TestErrorsAreThoseOfNet(t *testing.T) {
	t.Parallel()
	one := make([]byte, 1)
	for name, provoke := range map[string]func(c, peer net.Conn) error{
		"the peer has closed": func(c, peer net.Conn) error {
			peer.Close()
			_, err := c.Read(one)
			return err
		},
		"the peer has reset, read": func(c, peer net.Conn) error {
			peer.(*net.TCPConn).SetLinger(0)
			peer.Close()
			_, err := c.Read(one)
			return err
		},
		"the peer has reset, write": func(c, peer net.Conn) error {
			peer.(*net.TCPConn).SetLinger(0)
			peer.Close()
			c.Read(one) // the reset is there
			_, err := c.Write(one)
			return err
		},
		"it is closed, read": func(c, _ net.Conn) error {
			c.Close()
			_, err := c.Read(one)
			return err
		},
		"it is closed, write": func(c, _ net.Conn) error {
			c.Close()
			_, err := c.Write(one)
			return err
		},
		"it is closed during a read": func(c, _ net.Conn) error {
			time.AfterFunc(10*time.Millisecond, func() { c.Close() })
			_, err := c.Read(one)
			return err
		},
		"it is closed during a write": func(c, _ net.Conn) error {
			time.AfterFunc(10*time.Millisecond, func() { c.Close() })
			_, err := c.Write(make([]byte, 50<<20))
			return err
		},
		"too late, read": func(c, _ net.Conn) error {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(one)
			return err
		},
		"too late, write": func(c, _ net.Conn) error {
			c.SetWriteDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Write(make([]byte, 50<<20))
			return err
		},
	} {
		raw, peer := pair(t, "tcp")
		ours := provoke(raw, peer.Conn)
		plain, peer := pair(t, "tcp")
		theirs := provoke(plain.Conn, peer.Conn)
		for _, is := range []error{io.EOF, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ECONNRESET, syscall.EPIPE} {
			if errors.Is(ours, is) != errors.Is(theirs, is) {
				t.Errorf("%s: %q is %q: %t, want %t", name, ours, is, errors.Is(ours, is), errors.Is(theirs, is))
			}
		}
		if o, n := timesOut(ours), timesOut(theirs); o != n {
			t.Errorf("%s: %q is a timeout: %t, want %t", name, ours, o, n)
		}
		if o, n := withoutAddresses(ours), withoutAddresses(theirs); o != n {
			t.Errorf("%s: %q, want %q", name, o, n)
		}
	}
}

func timesOut(err error) bool {
	n, is := errors.AsType[net.Error](err)
	return is && n.Timeout()
}

func withoutAddresses(err error) string {
	if of, is := errors.AsType[*net.OpError](err); is {
		return (&net.OpError{Op: of.Op, Net: of.Net, Err: of.Err}).Error()
	}
	return err.Error()
}

// TestAReadContinuesAfterADeadline, and returns nothing of an earlier read.
func TestAReadContinuesAfterADeadline(t *testing.T) {
	t.Parallel()
	ours, theirs := pair(t, "tcp")
	theirs.Write([]byte("first"))
	got := make([]byte, 10)
	if n, err := ours.Read(got); string(got[:n]) != "first" || err != nil {
		t.Errorf("read %q, %v", got[:n], err)
	}
	ours.SetReadDeadline(time.Now())
	if n, err := ours.Read(got); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %d bytes, %v", n, err)
	}
	ours.SetReadDeadline(time.Time{})
	theirs.Write([]byte("second"))
	if n, err := ours.Read(got); string(got[:n]) != "second" || err != nil {
		t.Errorf("read %q, %v", got[:n], err)
	}
}

// TestAnOptionIsSet, and what the system refuses is an error.
func TestAnOptionIsSet(t *testing.T) {
	t.Parallel()
	ours, _ := pair(t, "tcp")
	if err := SetTCPOption(ours.raw, unix.TCP_USER_TIMEOUT, 1234); err != nil {
		t.Error(err)
	}
	if err := ours.raw.Control(func(fd uintptr) {
		if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); got != 1234 || err != nil {
			t.Errorf("the option is %d, %v", got, err)
		}
	}); err != nil {
		t.Error(err)
	}
	if err := SetTCPOption(ours.raw, unix.TCP_USER_TIMEOUT, -1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("what is refused: %v", err)
	}
	ours.Close()
	if err := SetTCPOption(ours.raw, unix.TCP_USER_TIMEOUT, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("of a closed connection: %v", err)
	}
}

// countingPool counts the buffers that are in use.
type countingPool struct {
	mu          sync.Mutex
	inUse, most int
}

func (p *countingPool) Get(length int) *[]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse++
	p.most = max(p.most, p.inUse)
	return new(make([]byte, length))
}

func (p *countingPool) Put(*[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse--
}

var _ mem.BufferPool = (*countingPool)(nil)

// TestNoBufferIsHeldWithoutData: a buffer of the pool is in use only from when data has arrived.
func TestNoBufferIsHeldWithoutData(t *testing.T) {
	t.Parallel()
	ours, theirs := pair(t, "tcp")
	pool := &countingPool{}
	held := func(want int, when string) {
		t.Helper()
		pool.mu.Lock()
		defer pool.mu.Unlock()
		if pool.inUse != want {
			t.Errorf("%s %d buffers are in use, want %d", when, pool.inUse, want)
		}
	}
	ours.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if b, n, err := ours.ReadOnReady(100, pool); b != nil || n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without data: %v, %d, %v", b, n, err)
	}
	held(0, "without data")
	ours.SetReadDeadline(time.Time{})
	theirs.Write([]byte("some"))
	b, n, err := ours.ReadOnReady(100, pool)
	if err != nil || len(*b) != 100 || string((*b)[:n]) != "some" {
		t.Errorf("with data: %q, %d, %v", *b, n, err)
	}
	held(1, "with data")
	pool.Put(b)
	theirs.Close()
	if b, n, err := ours.ReadOnReady(100, pool); b != nil || n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, %d, %v", b, n, err)
	}
	held(0, "at the end")
	ours.Close()
	if b, n, err := ours.ReadOnReady(100, pool); b != nil || n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v, %d, %v", b, n, err)
	}
	held(0, "closed")
}

// BenchmarkPingPong is a byte there and back over a connection that both ends wait for.
func BenchmarkPingPong(b *testing.B) {
	for name, of := range map[string]func(*conn) net.Conn{
		"raw": func(c *conn) net.Conn { return c },
		"net": func(c *conn) net.Conn { return c.Conn },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ours, theirs := pair(b, "tcp")
			go func() {
				defer theirs.Close()
				io.Copy(struct{ io.Writer }{of(theirs)}, struct{ io.Reader }{of(theirs)})
			}()
			defer ours.Close()
			c, one := of(ours), make([]byte, 1)
			for b.Loop() {
				if _, err := c.Write(one); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Read(one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
