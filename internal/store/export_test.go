package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/coppice-run/coppice/internal/tree"
)

// LimitPages makes the disk full for the writer when the database has so many
// pages.
func (s *Store) LimitPages(ctx context.Context, pages int) error {
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		_, err := b.tx.(packing).transaction.(sqliteWriter).conn.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		return err
	})
}

// InterceptSync has f called in place of each sync of SQLite's log, with the sync.
func InterceptSync(s *Store, f func(sync func() error) error) {
	log := s.db.(*sqlite).wal
	sync := log.sync
	log.sync = func() error { return f(sync) }
}

// IsDone reports whether a command is answered.
func IsDone(p *Pending) bool { return p.isDone() }

// Unnumbered is a statement as SQLite is given it.
func Unnumbered(text string) string { return unnumbered(text) }

// Noise can't be packed to less.
func Noise(bytes int) []byte { return noise(bytes) }

// ReadByAll is as if all replicas had said that they read the newest form of rows.
func ReadByAll(s *Store) { s.allReadPacked.Store(true) }

// ShareSoon sends columns once as soon as rows are sent as arrays.
func ShareSoon(s *Store) { s.db.(*postgres).shareFrom = maxSingleRows + 1 }

// UnlistAll leaves out the row of each ready run that may be left out.
func UnlistAll(s *Store) {
	ReadByAll(s)
	s.unlists = func(int) bool { return s.Caps == Caps{} }
}

// ReadyRows counts the rows of ready runs, and the sessions with ready runs that have none.
func ReadyRows(ctx context.Context, s *Store) (rows, marked int, err error) {
	err = s.db.load(ctx,
		lookup{"ready_rows", [][]any{{maxMirrored}}, func(row row) error { rows++; return row.Scan(readyRow(&Ready{})...) }},
		lookup{"sessions_unlisted", [][]any{{make([]byte, 16), maxMirrored}}, func(row row) error { marked++; return row.Scan(idColumn(&tree.SessionID{})) }})
	return rows, marked, err
}

// LogRows puts events of sessions into rows of a log, each of a session and with its number.
func LogRows(sessions []tree.SessionID, seqs []int64, events [][]byte) (rows []LogRow) {
	var single [][]any
	for i := range events {
		single = append(single, []any{idColumn(&sessions[i]), seqs[i], events[i]})
	}
	for _, row := range new(rowJoiner).joinAll(single) {
		rows = append(rows, LogRow{tree.SessionID(*row[0].(id16).id), logRow{row[1].(int64), row[2].([]byte)}})
	}
	return rows
}

// LogRow is a row of a session's log.
type LogRow struct {
	Session tree.SessionID
	row     logRow
}

// LogRowOf is a row as it might be stored.
func LogRowOf(last int64, data []byte) LogRow { return LogRow{row: logRow{last, data}} }

func (r *LogRow) Last() int64 { return r.row.last }

func (r *LogRow) Data() []byte { return r.row.data }

// After gives its events after a number.
func (r *LogRow) After(seq int64) ([][]byte, error) { return r.row.after(seq, nil) }

// ListAtOnce is how many sessions get the rows of their runs at once.
const ListAtOnce = listAtOnce

// MaxReadConns is how many connections of PostgreSQL read at most by default.
const MaxReadConns = maxReadConns

// ReadsOf is how many connections read at most with a URL.
func ReadsOf(url string) (int32, error) {
	config, err := readURL(url)
	if err != nil {
		return 0, err
	}
	return config.MaxConns, nil
}

// CountLooks counts what the store's own steps ask the database. It comes before Run.
func CountLooks(s *Store) *Looks {
	c := &Looks{writer: s.stepCommitter.writer}
	c.Forget()
	s.stepCommitter.writer = c
	return c
}

// Looks counts, of statements, how often they were asked, and the rows that they gave.
type Looks struct {
	writer

	mu          sync.Mutex
	asked, rows map[string]int
}

// Forget begins anew.
func (l *Looks) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.rows = map[string]int{}, map[string]int{}
}

// Of gives how often a statement was asked, and how many rows it gave.
func (l *Looks) Of(statement string) (asked, rows int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[statement], l.rows[statement]
}

func (l *Looks) add(statement string, asked, rows int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[statement] += asked
	l.rows[statement] += rows
}

func (l *Looks) transact(ctx context.Context, work func(transaction) error, stored func()) error {
	return l.writer.transact(ctx, func(tx transaction) error { return work(counting{tx, l}) }, stored)
}

// counting is a transaction that is counted.
type counting struct {
	transaction
	looks *Looks
}

func (c counting) load(ctx context.Context, lookups ...lookup) error {
	for i, l := range lookups {
		c.looks.add(l.name, len(l.keys), 0)
		lookups[i].scan = func(row row) error {
			c.looks.add(l.name, 0, 1)
			return l.scan(row)
		}
	}
	return c.transaction.load(ctx, lookups...)
}

// ReadTransaction is the kind of a transaction of a connection that reads: its isolation, and whether
// it is read-only.
func ReadTransaction(ctx context.Context, s *Store) (isolation, readOnly string, err error) {
	err = s.db.(*postgres).reads.QueryRow(ctx, "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')").Scan(&isolation, &readOnly)
	return isolation, readOnly, err
}
