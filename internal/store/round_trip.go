package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errNoAnswer says that nobody has answered. The system would say so of a connection a quarter
// of an hour later, or never.
var errNoAnswer = errors.New("no answer has come in time")

// roundTrip makes a round trip on a connection that reads. It waits so long for one, and then so
// long for the server. A passing error says that the connection was lost, or that there is none.
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
		// What has happened to one connection has most often happened to all. Whether it has is not
		// known where somebody gave up, and to do without those that are idle costs little.
		if ctx.Err() == nil || time.Since(asked) >= suspectAfter {
			db.reads.Reset()
		}
		// Its place is for another one, not for 15 seconds of farewell.
		switch close := conn.Conn().PgConn().Conn().Close; {
		case silent():
			err = errors.Join(errNoAnswer, close())
		case asking.Err() != nil:
			time.AfterFunc(closeTimeout, func() { _ = close() }) // most often it is closed by then
		}
	}
	return markTransient(conn.Conn(), err)
}

// neverPing: who finds that a connection is lost takes another one anyhow.
func neverPing(context.Context, pgxpool.ShouldPingParams) bool { return false }
