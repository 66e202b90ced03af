package system

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePort gives a port of the loopback address that nobody listens on, out of those that no
// outgoing connection takes.
func FreePort() (int, error) {
	const first, last, tries = 10_000, 32_767, 100
	for range tries {
		port := first + rand.IntN(last-first+1) //nolint:gosec // any will do
		l, err := net.Listen("tcp", Address(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("finding a free port: all that were tried are taken")
}

// Address is where a port of this machine is reached.
func Address(port int) string { return fmt.Sprint("127.0.0.1:", port) }

// FreeAddress is that of a free port.
func FreeAddress() (string, error) {
	port, err := FreePort()
	return Address(port), err
}
