package store

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDial: the system gives up a connection whose other side has vanished soon, whether something
// is on its way or not.
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
	raw, err := conn.(syscall.Conn).SyscallConn()
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
	if most := option(unix.TCP_USER_TIMEOUT); most != int(vanishedAfter.Milliseconds()) {
		t.Errorf("what is sent may go for %d ms without being received, want %v", most, vanishedAfter)
	}
	silent := option(unix.TCP_KEEPIDLE) + option(unix.TCP_KEEPINTVL)*option(unix.TCP_KEEPCNT)
	if silent != int(vanishedAfter.Seconds()) {
		t.Errorf("a silent connection is given up after %d s, want %v", silent, vanishedAfter)
	}
}
