package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgWriter makes transactions on a connection of its own, which it reopens when it is lost. It is
// not safe for concurrent use.
type pgWriter struct {
	db       *postgres
	timeout  time.Duration       // of a transaction
	conn     *pgx.Conn           // nil: not connected yet
	variants map[string]variants // of statements, by their texts
	buffer   []byte              // for the arguments of a transaction
	sent     []byte              // pgx's buffer for what it sends
}

// maxKeptBuffer is the size up to which buffers are kept for the next transaction.
const maxKeptBuffer = 2 << 20

// Error codes after which the same transaction may succeed, and codeDivision.
const (
	codeUnique    = "23505" // another replica has created the same session, or a row that was presumed new exists
	codeReadOnly  = "25006" // the server is no longer the primary
	codeSerialize = "40001"
	codeDeadlock  = "40P01"
	codeDivision  = "22012" // how "unchanged" and "agents_unchanged" report a difference
)

// transact retries a transaction that was not stored: for a while if the database cannot be
// reached, and once if a row existed already.
func (w *pgWriter) transact(ctx context.Context, work func(transaction) error, stored func()) error {
	cameFirst := false
	err := retryTransient(ctx, func() error {
		err := w.attempt(ctx, work)
		switch codeOf(err) {
		case codeDivision:
			return fmt.Errorf("%w: %w", errChanged, err)
		case codeUnique:
			if !cameFirst {
				cameFirst = true
				return transientError{err}
			}
		}
		return err
	})
	if err == nil {
		stored()
	}
	return err
}

// attempt makes one transaction. After a transientError nothing of it is stored.
func (w *pgWriter) attempt(ctx context.Context, work func(transaction) error) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	timely, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	tx := w.begin()
	if err := work(tx); err != nil {
		return w.rollback(timely, errors.Join(err, tx.finishAhead()))
	}
	err := tx.commit(timely)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("committing: %w", err)
	if !w.conn.IsClosed() {
		return w.rollback(timely, err)
	}
	committed, doubt := w.resolveCommit(ctx, tx.id)
	switch {
	case doubt != nil:
		return fmt.Errorf("%w: %w (finding out: %s)", errOutcomeUnknown, err, doubt.Error())
	case committed:
		return nil
	}
	return transientError{err}
}

// connect opens a connection if there is none. The timeout applies to each of the servers that the
// URL names, or the first one that does not respond would leave no time for the others.
func (w *pgWriter) connect(ctx context.Context) error {
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	config := w.db.config.Copy()
	config.ConnectTimeout = min(config.ConnectTimeout, w.timeout)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return transientError{err}
	}
	if err := prepareConnection(ctx, conn, ""); err != nil {
		return transientError{errors.Join(err, conn.Close(ctx))}
	}
	w.conn, w.sent = conn, nil
	return nil
}

// rollback ends a failed transaction. If that is not possible it closes the connection, and the
// server rolls back.
func (w *pgWriter) rollback(ctx context.Context, err error) error {
	if err = markTransient(w.conn, err); w.conn.IsClosed() {
		return err
	}
	_, failed := w.conn.Exec(ctx, "ROLLBACK")
	if failed == nil && codeOf(err) != codeReadOnly {
		return err
	}
	closing := w.conn.Close(ctx)
	if err == nil {
		return nil
	}
	return errors.Join(err, failed, closing)
}

// resolveCommit finds out whether a transaction was committed when its connection was lost. It
// waits for a transaction that is still running. One that has not begun yet can no longer commit: its
// id is taken, all that was sent with its beginning fails with it, and nothing more is sent.
//
// When ctx ends, it goes on for finishTimeout.
func (w *pgWriter) resolveCommit(ctx context.Context, id []byte) (committed bool, err error) {
	ended := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachTimeout+time.Second)
	defer cancel()
	defer context.AfterFunc(ended, func() { time.AfterFunc(finishTimeout, cancel) })()
	err = retryTransient(ctx, func() error {
		if err := w.connect(ctx); err != nil {
			return err
		}
		if _, err := w.conn.Exec(ctx, w.db.statements["batch_void"].text, id); err != nil {
			return markTransient(w.conn, err)
		}
		err := w.conn.QueryRow(ctx, w.db.statements["batch_committed"].text, id).Scan(&committed)
		return markTransient(w.conn, err)
	})
	return committed, err
}

func (w *pgWriter) close(ctx context.Context) error {
	if w.conn == nil {
		return nil
	}
	return w.conn.Close(ctx)
}

// begin begins a transaction with the first statements that it sends. The transaction writes its id
// before it locks anything. So resolveCommit waits for it wherever it is blocked, or stops it
// before that.
func (w *pgWriter) begin() *pgTransaction {
	if w.buffer = w.buffer[:0]; cap(w.buffer) > maxKeptBuffer {
		w.buffer = nil
	}
	if cap(w.sent) > maxKeptBuffer {
		w.sent = nil
	}
	id := uuid.Must(uuid.NewV7())
	tx := &pgTransaction{writer: w, id: id[:], queued: &pgx.Batch{}}
	tx.queued.Queue("BEGIN")
	tx.queued.Queue(w.db.statements["batch"].text, tx.id)
	return tx
}

// pgTransaction collects statements and sends them together. Only load and commit take a round
// trip.
type pgTransaction struct {
	writer *pgWriter
	id     []byte
	queued *pgx.Batch
	ahead  chan pgx.BatchResults // will have the results of what is sent ahead; nil: nothing is
}

func (tx *pgTransaction) load(ctx context.Context, lookups ...lookup) error {
	before := tx.queued.Len()
	if err := tx.writer.db.queue(tx.queued, &tx.writer.buffer, func() {}, func() {}, lookups); err != nil || tx.queued.Len() == before {
		return err
	}
	return tx.send(ctx)
}

func (tx *pgTransaction) loadLater(_ context.Context, lookups ...lookup) error {
	return tx.writer.db.queue(tx.queued, &tx.writer.buffer, func() {}, func() {}, lookups)
}

// statementOverhead is about how many bytes a statement sends in addition to its arrays.
const statementOverhead = 256

// columnsPerRow is how many array columns cost as much as one more single-row statement. For up to
// maxSingleRows rows arrays never pay off.
const (
	columnsPerRow = 11
	maxSingleRows = 2
)

func (tx *pgTransaction) save(_ context.Context, name string, rows ...[]any) error {
	s := tx.writer.db.statements[name].forRows(len(rows))
	if s.keys > 0 && len(rows) >= tx.writer.db.shareFrom {
		text, args, err := tx.writer.share(s, rows)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		tx.queued.Queue(text, args...)
		return nil
	}
	args, err := s.arguments(rows, &tx.writer.buffer)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, a := range args {
		tx.queued.Queue(s.text, a...)
	}
	return nil
}

func (tx *pgTransaction) commit(ctx context.Context) error {
	tx.queued.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the server answered %s", tag)
		}
		return nil
	})
	return tx.send(ctx)
}

// sendAhead sends what has queued. The connection is not used otherwise until finishAhead.
func (tx *pgTransaction) sendAhead(ctx context.Context) {
	if tx.ahead != nil {
		return
	}
	batch := tx.takeQueued()
	ahead := make(chan pgx.BatchResults, 1)
	tx.ahead = ahead
	go func() { ahead <- tx.writer.conn.SendBatch(ctx, batch) }() // the database reads while it works, so this blocks
}

// finishAhead reads the results of what was sent ahead, if anything was.
func (tx *pgTransaction) finishAhead() error {
	if tx.ahead == nil {
		return nil
	}
	results := <-tx.ahead
	tx.ahead = nil
	return results.Close()
}

func (tx *pgTransaction) send(ctx context.Context) error {
	if err := tx.finishAhead(); err != nil {
		return err
	}
	return tx.writer.conn.SendBatch(ctx, tx.takeQueued()).Close()
}

// takeQueued returns what has queued, for which pgx gets a buffer.
func (tx *pgTransaction) takeQueued() *pgx.Batch {
	batch := tx.queued
	tx.queued = &pgx.Batch{}
	tx.writer.conn.PgConn().Frontend().Send(bufferReservation{&tx.writer.sent, len(tx.writer.buffer) + batch.Len()*statementOverhead})
	return batch
}

// forRows gives the statement for so many rows.
func (s pgStatement) forRows(rows int) pgStatement {
	if s.single != "" && rows <= max(maxSingleRows, len(s.types)/columnsPerRow) {
		return pgStatement{text: s.single}
	}
	return s
}

// arguments gives the arguments of each execution of the statement. Arrays for many rows are
// written into the buffer.
func (s pgStatement) arguments(rows [][]any, buffer *[]byte) ([][]any, error) {
	if len(s.types) > 0 && len(rows) > 0 {
		columns, err := columnsOf(rows, s.types, buffer)
		return [][]any{columns}, err
	}
	for _, row := range rows {
		if err := values(row); err != nil {
			return nil, err
		}
		asTextArguments(row)
	}
	return rows, nil
}
