package system

import (
	"fmt"
	"net"
)

// FreePort gives a port of the loopback address that nobody listens on.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
