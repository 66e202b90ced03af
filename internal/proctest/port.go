package proctest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// FreeAddress gives an address of this machine that is the test's until it ends: to
// listen on, more than once too, while nobody else gets it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", holdPort(t))
}

// holdPort keeps a port with a socket that is bound to it and does not listen. Bound
// without SO_REUSEADDR it gets a port that no other socket has. The flag, set
// afterwards, lets in those that ask for this very port and set it too, which servers
// do; the kernel gives the port to nobody who takes any, be it to listen or to connect.
func holdPort(t testing.TB) int {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("holding a port: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Close(socket); err != nil {
			t.Errorf("giving back a port: %v", err)
		}
	})
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("holding a port: %v", err)
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatalf("holding a port: %v", err)
	}
	name, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatalf("holding a port: %v", err)
	}
	return name.(*unix.SockaddrInet4).Port
}
