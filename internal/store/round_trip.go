package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errNoAnswer says that the server did not answer in time. The operating system would report that
// of a connection a quarter of an hour later, or never.
var errNoAnswer = errors.New("the database did not respond in time")

func (db *postgres) readConns() int { return int(db.reads.Config().MaxConns) }

// roundTrip sends a batch on a pooled connection. The timeout applies to getting the connection,
// and again to the server's answer. A transientError says that the connection was lost, or that
// there is none.
func (db *postgres) roundTrip(ctx context.Context, timeout time.Duration, batch *pgx.Batch) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	silence := time.AfterFunc(timeout, stop)
	defer silence.Stop()
	silent := func() bool { return asking.Err() != nil && ctx.Err() == nil }
	conn, err := db.reads.Acquire(asking)
	switch {
	case err != nil && silent():
		return transientError{errNoAnswer}
	case err != nil:
		return transientError{err}
	}
	defer conn.Release()
	silence.Reset(timeout)
	asked := time.Now()
	err = conn.SendBatch(asking, batch).Close()
	if err != nil && conn.Conn().IsClosed() {
		// What has happened to one connection has usually happened to all of them. If the caller gave
		// up, it is not known what has happened, but dropping the idle connections costs little.
		if ctx.Err() == nil || time.Since(asked) >= suspectAfter {
			db.reads.Reset()
		}
		// Free its place in the pool at once, instead of after pgx's close of up to 15 seconds.
		switch close := conn.Conn().PgConn().Conn().Close; {
		case silent():
			err = errors.Join(errNoAnswer, close())
		case asking.Err() != nil:
			time.AfterFunc(closeTimeout, func() { _ = close() }) // usually it is closed by then
		}
	}
	return markTransient(conn.Conn(), err)
}

// neverPing skips the pool's pings: a caller that gets a lost connection takes another one anyway.
func neverPing(context.Context, pgxpool.ShouldPingParams) bool { return false }
