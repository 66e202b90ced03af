//go:build !race

package rawconn

import (
	"net"
	"syscall"
)

// Wrap returns a connection over the socket of c. A connection that is neither TCP nor Unix is
// returned as it is.
func Wrap(c net.Conn) net.Conn {
	var raw syscall.RawConn
	var err error
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return c
	}
	if err != nil {
		return c // it is closed: its reads and writes say so
	}
	return newConn(c, raw)
}
