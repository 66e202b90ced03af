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

// exchange makes a round trip on a connection that reads, for which the server has so long once
// there is one. A passing error says that the connection was lost, or that there is none.
func (db *postgres) exchange(ctx context.Context, patience time.Duration, batch *pgx.Batch) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	silence := time.AfterFunc(stallPatience, stop)
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
	err = conn.SendBatch(asking, batch).Close()
	if err != nil && conn.Conn().IsClosed() {
		if ctx.Err() == nil {
			db.reads.Reset() // what has happened to one connection has most often happened to all
		}
		if silent() {
			// Its place is for another one, not for 15 seconds of farewell.
			err = errors.Join(errSilent, conn.Conn().PgConn().Conn().Close())
		}
	}
	return unlessLost(conn.Conn(), err)
}

// neverPing: who finds that a connection is lost takes another one anyhow.
func neverPing(context.Context, pgxpool.ShouldPingParams) bool { return false }
