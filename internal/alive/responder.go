// Package alive distinguishes a dead process from one that is only unreachable.
//
// A worker listens on a port of its own and sends its id to each client that connects:
// [Respond]. It does nothing else there and reads nothing. When a worker's stream breaks, the
// orchestrator connects to that port: [Prober]. The process is dead in two cases: the machine
// refuses the connection, because nothing listens on the port any more; or another worker
// answers, which has taken the port over. Everything else (the worker's own answer, silence, no
// route) leaves the question open.
//
// Something between the two may answer instead of the worker: a proxy, address translation or a
// firewall. So a result counts only if the worker itself has answered at that address before.
// Without that, the prober never concludes anything.
//
// A conclusion may still be wrong, for example because a firewall started to refuse
// connections. The cost is that of a lost worker: one repeated model call and one strike
// against the run. Nothing becomes inconsistent: like a frozen worker, the abandoned one is
// fenced off by the epoch of the next attempt.
//
// An orchestrator connects only to the host that a stream comes from. The worker chooses only
// the port. Nothing is sent there, and what is received is compared and discarded.
package alive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// The answer is one line: the greeting and the id of the worker.
const (
	greeting   = "coppice worker "
	maxIDBytes = 256 // workers with longer ids are not probed
)

// Times of the responding side.
const (
	replyTimeout = time.Second            // a connection is closed after this
	acceptRetry  = 100 * time.Millisecond // pause after a failed accept, for example without free file descriptors
)

func replyLine(id string) string { return greeting + id + "\n" }

// Listen opens the port of a worker. It returns nil for an empty address.
func Listen(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the question whether the worker is alive: %w", err)
	}
	return l, nil
}

// Port returns the TCP port of a listener, or 0.
func Port(l net.Listener) int {
	if l == nil {
		return 0
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return addr.Port
}

// Respond sends the id of the worker to each client that connects, until the listener is
// closed. It serves one connection at a time. The line fits into the send buffer of the system,
// so no client can block it or make it hold memory.
func Respond(ctx context.Context, l net.Listener, id string, log *slog.Logger) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			log.WarnContext(ctx, "a question whether the worker is alive was lost", "error", err)
			time.Sleep(acceptRetry)
			continue
		}
		if err := reply(conn, id); err != nil {
			log.DebugContext(ctx, "telling that the worker is alive failed", "error", err)
		}
	}
}

func reply(conn net.Conn, id string) error {
	err := conn.SetDeadline(time.Now().Add(replyTimeout))
	if err == nil {
		_, err = conn.Write([]byte(replyLine(id)))
	}
	return errors.Join(err, conn.Close())
}
