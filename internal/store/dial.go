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
// connection within reachPatience. Nothing is taken in if the machine of the server has vanished, but
// neither is what there is no room for, since the server does not read: it waits for a lock, or is
// frozen. So stalledAfter holds once more than takenUnread is on its way.
const (
	vanishedAfter = 3 * time.Second
	stalledAfter  = 15 * time.Second
)

// takenUnread is for how much a machine has room though its server does not read, in bytes: half of
// what Linux has for a new connection.
const takenUnread = 32 << 10

// dial connects to the server.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Control: vanishes, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: vanishedAfter - time.Second, Interval: time.Second, Count: 1,
	}}
	conn, err := d.DialContext(ctx, network, address)
	if tcp, is := conn.(*net.TCPConn); is {
		return &link{TCPConn: tcp}, err
	}
	return conn, err
}

func vanishes(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	return giveUp(c, vanishedAfter)
}

// link is a connection over TCP, which is given up later while much is on its way.
type link struct {
	*net.TCPConn
	unanswered atomic.Int64 // bytes that were sent since the server has last said something
	much       bool
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.TCPConn.Read(p)
	if n > 0 {
		l.unanswered.Store(0)
	}
	return n, err
}

func (l *link) Write(p []byte) (int, error) {
	if much := l.unanswered.Add(int64(len(p))) > takenUnread; much != l.much {
		after := vanishedAfter
		if much {
			after = stalledAfter
		}
		if err := l.giveUp(after); err != nil {
			return 0, err
		}
		l.much = much
	}
	return l.TCPConn.Write(p)
}

func (l *link) giveUp(after time.Duration) error {
	c, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return giveUp(c, after)
}
