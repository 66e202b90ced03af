//go:build !linux || race

package rawconn

import "net"

// Wrap returns c.
func Wrap(c net.Conn) net.Conn { return c }
