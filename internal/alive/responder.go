// Package alive tells a process that is dead from one that is only out of reach.
//
// A worker listens on a port of its own and tells whoever connects its id: [Answer].
// It does nothing else there, and hears nothing. When the stream of a worker breaks,
// the orchestrator asks at that port: [Prober]. A machine on which nobody listens
// there any more says so at once, and so does a worker that has come in the place of
// the one before. Either means that the process is gone. Everything else (an answer,
// silence, no way there) leaves open what has happened.
//
// The way to a worker may lead through something that answers in its place: a proxy,
// a translation of addresses, a firewall. So a refusal counts only where the worker
// itself was once heard under the address; elsewhere nothing is ever concluded.
//
// A conclusion may still be wrong, say because a firewall began to refuse. That costs
// what a lost worker costs, a repeated call of a model and a strike against the run,
// and nothing that is true: the worker that was given up is fenced off by the epoch
// of the next delivery, like one that was frozen.
//
// An orchestrator connects to the host that a stream comes from, and to no other. A
// worker chooses the port alone; nothing is sent there, and what is heard is compared
// and forgotten.
package alive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// The answer is one line: the greeting, and the id of the worker.
const (
	greeting   = "coppice worker "
	maxIDBytes = 256 // no worker with a longer id is asked
)

// Times of the side that answers.
const (
	replyTimeout = time.Second            // a connection is given up after it
	acceptRetry  = 100 * time.Millisecond // after accepting failed, say for want of files
)

func replyLine(id string) string { return greeting + id + "\n" }

// Listen opens the port of a worker; an address that is empty gives none.
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

// Port is that of a listener; 0 if it is none, or none of TCP.
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

// Respond tells each that connects the id of the worker, until the listener is closed.
// It has one connection at a time, and the line fits into what the system buffers: so
// nobody can hold it up, or make it hold anything.
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
