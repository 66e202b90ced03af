package proctest_test

import (
	"net"
	"testing"

	"github.com/coppice-run/coppice/internal/proctest"
)

// TestAnAddressIsHeld: an address is listened on again and again, and neither another
// test nor whoever takes any port, to listen or to connect, gets it in between.
func TestAnAddressIsHeld(t *testing.T) {
	t.Parallel()
	const many = 500 // addresses: of as many random ones some would be the same
	held := map[string]bool{}
	for range many {
		address := proctest.FreeAddress(t)
		if held[address] {
			t.Fatalf("%s is given twice", address)
		}
		held[address] = true
	}
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range many {
		conn, err := net.Dial("tcp", target.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if conns = append(conns, conn); held[conn.LocalAddr().String()] {
			t.Fatalf("a connection comes from %s", conn.LocalAddr())
		}
	}
	for address := range held {
		for _, at := range []string{address, address, "127.0.0.1:0"} {
			l, err := net.Listen("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			if at != address && held[l.Addr().String()] {
				t.Errorf("%s is given to whoever comes", l.Addr())
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
