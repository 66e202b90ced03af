package store

import (
	"context"
	"net"
	"time"
)

// vanishedAfter is how long the machine of the server may say nothing, not even that it has
// received what was sent, before the system gives a connection up. It would take a quarter of
// an hour by itself; this leaves time to try another connection within reachPatience.
const vanishedAfter = 3 * time.Second

// dial connects to the server.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Control: giveUp, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: vanishedAfter - time.Second, Interval: time.Second, Count: 1,
	}}
	return d.DialContext(ctx, network, address)
}
