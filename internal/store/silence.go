package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errSilent says that nobody has answered. The system would say so of a connection a quarter
// of an hour later, or never.
var errSilent = errors.New("no answer has come in time")

// exchange makes a round trip on a connection that reads. It waits so long for one, and then so
// long for the server. A passing error says that the connection was lost, or that there is none.
func (db *postgres) exchange(ctx context.Context, patience time.Duration, batch *pgx.Batch) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	silence := time.AfterFunc(patience, stop)
	defer silence.Stop()
	silent := func() bool { return asking.Err() != nil && ctx.Err() == nil }
	conn, err := db.reads.Acquire(asking)
	switch {
	case err != nil && silent():
		return passing{errSilent}
	case err != nil:
		return passing{err}
	}
	defer conn.Release()
	silence.Reset(patience)
	asked := time.Now()
	err = conn.SendBatch(asking, batch).Close()
	if err != nil && conn.Conn().IsClosed() {
		// What has happened to one connection has most often happened to all. Whether it has is not
		// known where somebody gave up, and to do without those that are idle costs little.
		if ctx.Err() == nil || time.Since(asked) >= doubtPatience {
			db.reads.Reset()
		}
		// Its place is for another one, not for 15 seconds of farewell.
		switch close := conn.Conn().PgConn().Conn().Close; {
		case silent():
			err = errors.Join(errSilent, close())
		case asking.Err() != nil:
			time.AfterFunc(farewellPatience, func() { _ = close() }) // most often it is closed by then
		}
	}
	return unlessLost(conn.Conn(), err)
}

// neverPing: who finds that a connection is lost takes another one anyhow.
func neverPing(context.Context, pgxpool.ShouldPingParams) bool { return false }
