package store

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/internal/rawconn"
)

// vanishedAfter is how long sent data may stay unacknowledged before the system gives a connection
// up. The system's default is a quarter of an hour; this leaves time to try another connection
// within reachTimeout.
//
// Data stays unacknowledged if the server's machine has vanished, but also if the receive buffer is
// full because the server does not read: it waits for a lock, or is frozen. So once more than
// peerReceiveBuffer is in flight, stalledAfter applies instead.
const (
	vanishedAfter = 3 * time.Second
	stalledAfter  = 15 * time.Second
)

// peerReceiveBuffer is how many bytes a machine accepts while its server does not read: half of
// Linux's buffer of a new connection.
const peerReceiveBuffer = 32 << 10

// dial connects to the server.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Control: setVanishTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: vanishedAfter - time.Second, Interval: time.Second, Count: 1,
	}}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, is := conn.(*net.TCPConn); is {
		return &timeoutConn{Conn: rawconn.Wrap(tcp), tcp: tcp}, nil
	}
	return rawconn.Wrap(conn), nil
}

func setVanishTimeout(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	return setUserTimeout(c, vanishedAfter)
}

// timeoutConn is a TCP connection whose timeout is longer while much data is in flight.
type timeoutConn struct {
	net.Conn
	tcp        *net.TCPConn
	unanswered atomic.Int64 // bytes sent since the server's last answer
	congested  bool
}

func (l *timeoutConn) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
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
	return l.Conn.Write(p)
}

func (l *timeoutConn) setUserTimeout(after time.Duration) error {
	c, err := l.tcp.SyscallConn()
	if err != nil {
		return err
	}
	return setUserTimeout(c, after)
}
