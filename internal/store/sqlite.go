package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

// sqlite is a database file that one process has locked: one connection writes, a pool reads.
type sqlite struct {
	lock      *fileLock
	wal       *growingLog
	syncs     bool         // this package syncs the log, not SQLite; see Config.EarlyRuns
	syncing   sync.RWMutex // held while a transaction is visible that is not durable yet
	broken    error        // guarded by syncing: why the log could not be synced, after which nothing is committed
	pools     []*sql.DB
	conn      *sql.Conn // writes
	reads     *sql.DB
	texts     map[string]string
	saving    map[string]driver.Stmt // prepared on conn at their first use
	asking    map[string]*sql.Stmt   // queries, prepared on conn at their first use
	preparing sync.Mutex
	reading   map[string]*sql.Stmt // queries, prepared on reads at their first use; guarded by preparing
	wrote     bool                 // the writer's transaction has written something
	arguments []driver.NamedValue  // of the writer, reused for each row
}

// pragmas let readers run concurrently with the writer. SQLite goes through its cache with each commit
// that has split a page, so a large one costs time.
var pragmas = []string{
	"journal_mode(WAL)", "busy_timeout(5000)", "temp_store(MEMORY)",
	"cache_size(-4096)", "wal_autocheckpoint(" + strconv.Itoa(logCheckpointPages) + ")",
}

// mapped is the pragma of the writer. What its cache does not hold it reads from the mapped file, or
// from the log. A connection that reads would unmap the file and map it again after each commit.
const mapped = "mmap_size(268435456)"

func openSQLite(ctx context.Context, name string, syncs bool, logger *slog.Logger) (*sqlite, error) {
	file, err := resolveFile(name)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(file + ".lock")
	if err != nil {
		return nil, err
	}
	var db *sqlite
	if err = checkWritable(file); err == nil {
		db, err = openLocked(ctx, file, syncs, logger)
	}
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	db.lock = lock
	return db, nil
}

func openLocked(ctx context.Context, file string, syncs bool, logger *slog.Logger) (*sqlite, error) {
	durability := "synchronous(FULL)"
	if syncs {
		durability = "synchronous(NORMAL)" // see sqliteWriter.commit
	}
	writes, err := sql.Open("sqlite", dsn(file, slices.Concat(pragmas, []string{mapped, durability})...))
	if err != nil {
		return nil, err
	}
	reads, err := sql.Open("sqlite", dsn(file, append([]string{"query_only(1)"}, pragmas[1:]...)...))
	if err != nil {
		return nil, err
	}
	conns := max(maxReadConns, runtime.NumCPU()) // also with few processors, scans leave some of them
	reads.SetMaxOpenConns(conns)
	reads.SetMaxIdleConns(conns)
	db := &sqlite{
		pools: []*sql.DB{writes, reads}, reads: reads, syncs: syncs,
		saving: map[string]driver.Stmt{}, asking: map[string]*sql.Stmt{}, reading: map[string]*sql.Stmt{},
	}
	err = db.open(ctx, writes)
	if err == nil {
		db.wal, err = openGrowingLog(file, logger)
	}
	if err != nil {
		return nil, errors.Join(explainFile(err), db.close())
	}
	return db, nil
}

// open brings the schema up to date and reads the statements. The first to read the file is a
// connection that leaves it as it is, because the pragmas of the writing one change it.
func (db *sqlite) open(ctx context.Context, writes *sql.DB) error {
	if err := refuseForeign(ctx, db.reads); err != nil {
		return err
	}
	if err := migrate(ctx, writes); err != nil {
		return err
	}
	var err error
	if db.conn, err = writes.Conn(ctx); err != nil {
		return err
	}
	db.texts, err = readStatements("sqlite", map[string]string{
		"now": "?1", "host": hostWith("instr"), "claims": "LEFT JOIN attempts AS claim ON " + claimOfTask,
		"unlisted sessions": "IN (SELECT id FROM sessions INDEXED BY sessions_unlisted WHERE unlisted)",
	}, "INDEXED BY ")
	if err != nil {
		return err
	}
	db.texts["begin"], db.texts["commit"], db.texts["rollback"] = "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"
	for _, t := range tables {
		db.texts["add_"+t.name], db.texts["drop_"+t.name] = sqliteAdd(t), sqliteDrop(t)
		db.texts["put_"+t.name] = sqliteAdd(t) + t.onConflict()
		for _, n := range t.narrow {
			db.texts[n.name] = t.insertSQL(n, "?", func(constant string, _ int) string { return constant })
		}
		for _, u := range t.updates {
			db.texts[u.name] = t.updateSQL(u, "?", "", t.keyPredicate("?"))
		}
	}
	return nil
}

func dsn(path string, pragmas ...string) string {
	query := url.Values{"_pragma": pragmas}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

// close closes all connections and their statements.
func (db *sqlite) close() error {
	var errs []error
	for _, stmts := range []map[string]*sql.Stmt{db.asking, db.reading} {
		for _, stmt := range stmts {
			errs = append(errs, stmt.Close())
		}
	}
	for _, stmt := range db.saving {
		errs = append(errs, stmt.Close())
	}
	if db.conn != nil {
		errs = append(errs, db.conn.Close())
	}
	if db.wal != nil {
		errs = append(errs, db.wal.close())
	}
	for _, pool := range db.pools {
		errs = append(errs, pool.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.release())
	}
	return errors.Join(errs...)
}

// exclusive is true: the file is locked.
func (*sqlite) exclusive() bool { return true }

func (db *sqlite) readConns() int { return db.reads.Stats().MaxOpenConnections }

// layout is the plain one: in SQLite a zero takes no more room than NULL, and long values have
// pages of their own.
func (*sqlite) layout() layout { return layout{} }

// writer gives the only writer.
func (db *sqlite) writer(time.Duration) writer { return sqliteWriter{db} }

// sqliteWriter is the connection that writes.
type sqliteWriter struct{ *sqlite }

func (db sqliteWriter) transact(ctx context.Context, work func(transaction) error, stored func()) error {
	return explainFile(db.attempt(ctx, work, stored))
}

func (db sqliteWriter) attempt(ctx context.Context, work func(transaction) error, stored func()) error {
	if err := db.save(ctx, "begin", nil); err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	db.wrote = false
	err := work(db)
	if err == nil {
		if err = db.commit(ctx, stored); err == nil || errors.Is(err, errNotSynced) {
			return err
		}
		err = fmt.Errorf("committing: %w", err)
	}
	// The failed statement may have rolled back already; then this fails too.
	if rollback := db.run(ctx, "rollback", nil); rollback != nil {
		err = fmt.Errorf("%w (rolling back: %w)", err, rollback)
	}
	return err
}

// sendAhead does nothing: rows are written at once.
func (sqliteWriter) sendAhead(context.Context) {}

// save notices the end of ctx only before the first row.
func (db sqliteWriter) save(ctx context.Context, name string, rows ...[]any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.wrote = true
	return db.run(ctx, name, rows...)
}

// run executes a prepared statement for each row, whether or not ctx has ended: for a context that
// can end, the driver starts a goroutine and sets a handler for each statement. It uses the driver
// directly: database/sql would check, convert and copy arguments that already have the driver's types.
func (db sqliteWriter) run(ctx context.Context, name string, rows ...[]any) error {
	ctx = context.WithoutCancel(ctx)
	err := db.conn.Raw(func(conn any) error {
		stmt, err := db.prepareSave(ctx, conn.(driver.ConnPrepareContext), name)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := values(row); err != nil {
				return err
			}
			db.arguments = db.arguments[:0]
			for i, v := range row {
				db.arguments = append(db.arguments, driver.NamedValue{Ordinal: i + 1, Value: v})
			}
			_, err := stmt.(driver.StmtExecContext).ExecContext(ctx, db.arguments)
			clear(db.arguments)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// prepareSave gives the driver's prepared statement.
func (db sqliteWriter) prepareSave(ctx context.Context, conn driver.ConnPrepareContext, name string) (driver.Stmt, error) {
	if stmt := db.saving[name]; stmt != nil {
		return stmt, nil
	}
	stmt, err := conn.PrepareContext(ctx, unnumbered(db.texts[name]))
	if err == nil {
		db.saving[name] = stmt
	}
	return stmt, err
}

func (db sqliteWriter) load(ctx context.Context, lookups ...lookup) error {
	for _, l := range lookups {
		if len(l.keys) == 0 {
			continue
		}
		stmt, err := db.prepare(ctx, l.name)
		if err == nil {
			err = db.runLookup(context.WithoutCancel(ctx), stmt, l) // see run
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

func (db sqliteWriter) loadLater(ctx context.Context, lookups ...lookup) error {
	return db.load(ctx, lookups...)
}

func (db sqliteWriter) prepare(ctx context.Context, name string) (*sql.Stmt, error) {
	if stmt := db.asking[name]; stmt != nil {
		return stmt, nil
	}
	stmt, err := db.conn.PrepareContext(ctx, unnumbered(db.texts[name]))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	db.asking[name] = stmt
	return stmt, nil
}

// unnumbered removes the number of each parameter that has the next number anyway. SQLite treats a
// numbered parameter as a name, which it looks up in a list each time that arguments are bound.
func unnumbered(text string) string {
	greatest := 0
	return parameter.ReplaceAllStringFunc(text, func(p string) string {
		n, err := strconv.Atoi(p[1:])
		next := greatest + 1
		greatest = max(greatest, n)
		if err == nil && n == next {
			return "?"
		}
		return p
	})
}

// sqliteAdd is the statement that inserts a row.
func sqliteAdd(t table) string {
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", t.name,
		strings.Join(t.columns, ", "), strings.Repeat(", ?", len(t.columns)-1))
}

// sqliteDrop is the statement that deletes a row by its key.
func sqliteDrop(t table) string {
	return fmt.Sprintf("DELETE FROM %s WHERE %s = ?", t.name, strings.Join(t.columns[:t.keys], " = ? AND "))
}
