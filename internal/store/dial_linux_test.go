package store

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDial: the system gives up a connection whose other side has vanished soon, whether something
// is on its way or not; but not so soon if more is than is taken in though nobody reads.
func TestDial(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	conn, err := dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	raw, err := conn.(*timeoutConn).tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(which int) (value int) {
		var asked error
		if err := raw.Control(func(fd uintptr) { value, asked = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, which) }); err != nil || asked != nil {
			t.Fatal(err, asked)
		}
		return value
	}
	bound := func(when string, want time.Duration) {
		t.Helper()
		if most := option(unix.TCP_USER_TIMEOUT); most != int(want.Milliseconds()) {
			t.Errorf("%s: what is sent may go for %d ms without being taken in, want %v", when, most, want)
		}
	}
	bound("at first", vanishedAfter)
	silent := option(unix.TCP_KEEPIDLE) + option(unix.TCP_KEEPINTVL)*option(unix.TCP_KEEPCNT)
	if silent != int(vanishedAfter.Seconds()) {
		t.Errorf("a silent connection is given up after %d s, want %v", silent, vanishedAfter)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	exchange := func(from, to net.Conn, bytes int) {
		t.Helper()
		if _, err := from.Write(make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(to, make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
	}
	exchange(conn, server, peerReceiveBuffer)
	bound("with little on its way", vanishedAfter)
	exchange(conn, server, 1)
	bound("with much on its way", stalledAfter)
	exchange(server, conn, 1)
	exchange(conn, server, 1)
	bound("after an answer", vanishedAfter)
}
