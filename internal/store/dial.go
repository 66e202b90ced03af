package store

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// vanishedAfter is how long what was sent may go without being taken in before the system gives a
// connection up. It would take a quarter of an hour by itself; this leaves time to try another
// connection within reachTimeout. Nothing is taken in if the machine of the server has vanished, but
// neither is what there is no room for, since the server does not read: it waits for a lock, or is
// frozen. So stalledAfter holds once more than peerReceiveBuffer is on its way.
const (
	vanishedAfter = 3 * time.Second
	stalledAfter  = 15 * time.Second
)

// peerReceiveBuffer is for how much a machine has room though its server does not read, in bytes: half of
// what Linux has for a new connection.
const peerReceiveBuffer = 32 << 10

// dial connects to the server.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Control: setVanishTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: vanishedAfter - time.Second, Interval: time.Second, Count: 1,
	}}
	conn, err := d.DialContext(ctx, network, address)
	if tcp, is := conn.(*net.TCPConn); is {
		return &timeoutConn{TCPConn: tcp}, err
	}
	return conn, err
}

func setVanishTimeout(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	return setUserTimeout(c, vanishedAfter)
}

// timeoutConn is a connection over TCP, which is given up later while much is on its way.
type timeoutConn struct {
	*net.TCPConn
	unanswered atomic.Int64 // bytes that were sent since the server has last said something
	congested  bool
}

func (l *timeoutConn) Read(p []byte) (int, error) {
	n, err := l.TCPConn.Read(p)
	if n > 0 {
		l.unanswered.Store(0)
	}
	return n, err
}

func (l *timeoutConn) Write(p []byte) (int, error) {
	if much := l.unanswered.Add(int64(len(p))) > peerReceiveBuffer; much != l.congested {
		after := vanishedAfter
		if much {
			after = stalledAfter
		}
		if err := l.setUserTimeout(after); err != nil {
			return 0, err
		}
		l.congested = much
	}
	return l.TCPConn.Write(p)
}

func (l *timeoutConn) setUserTimeout(after time.Duration) error {
	c, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return setUserTimeout(c, after)
}
