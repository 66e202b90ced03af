package proctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// The ports that servers get. The kernel takes the source ports of connections from
// 32768 on: a server there could find its port taken by some connection, for as long
// as that lasts, when it is started again.
const (
	firstPort    = 10_000
	lastPort     = 32_767
	portAttempts = 100
)

// FreeAddress gives an address of this machine that nobody listens on, and that no
// outgoing connection takes meanwhile.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", freePort(t))
}

func freePort(t testing.TB) int {
	t.Helper()
	for range portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			continue
		case err != nil:
			t.Fatalf("looking for a free port: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatalf("freeing a port: %v", err)
		}
		return port
	}
	t.Fatalf("%d ports in a row are taken", portAttempts)
	return 0
}
