package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"runtime"
	"strings"

	"github.com/pressly/goose/v3"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

//go:embed migrations/sqlite/*.sql sql/sqlite/*.sql
var sqliteFiles embed.FS

// sqlite is the database of one process: one connection writes, a pool reads.
// Everything that another SQL dialect would do differently is in this file and
// in sql/sqlite. Statements go by name: that of their file, or put_, add_ or drop_
// with that of a table.
type sqlite struct {
	pools   []*sql.DB
	writer  *sql.Conn
	reads   *sql.DB
	texts   map[string]string
	writing map[string]*sql.Stmt // prepared on writer when they are first used
	reading map[string]*sql.Stmt // the queries, prepared on reads
}

// pragmas make a commit durable before it is answered, and let readers go on
// beside the writer.
var pragmas = []string{
	"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)", "temp_store(MEMORY)",
	"cache_size(-65536)", "mmap_size(268435456)", "wal_autocheckpoint(8000)",
}

func openSQLite(ctx context.Context, file string) (*sqlite, error) {
	writes, err := sql.Open("sqlite", dsn(file, pragmas...))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	reads, err := sql.Open("sqlite", dsn(file, append([]string{"query_only(1)"}, pragmas[2:]...)...))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	reads.SetMaxOpenConns(max(4, runtime.NumCPU()))
	reads.SetMaxIdleConns(max(4, runtime.NumCPU()))
	db := &sqlite{
		pools: []*sql.DB{writes, reads}, reads: reads,
		texts: map[string]string{}, writing: map[string]*sql.Stmt{}, reading: map[string]*sql.Stmt{},
	}
	if err := db.open(ctx, writes); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), db.close())
	}
	return db, nil
}

// open brings the database up to date and prepares what it will be asked.
func (db *sqlite) open(ctx context.Context, writes *sql.DB) error {
	if err := migrate(ctx, writes); err != nil {
		return fmt.Errorf("bringing it up to date: %w", err)
	}
	var err error
	if db.writer, err = writes.Conn(ctx); err != nil {
		return err
	}
	if err := db.readTexts(); err != nil {
		return err
	}
	for name, text := range db.texts {
		if !strings.Contains(text, "SELECT") {
			continue
		}
		if db.reading[name], err = db.reads.PrepareContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// readTexts reads the statements' files and makes those that follow from a
// table's columns. In a file, a table's name in braces stands for its columns.
func (db *sqlite) readTexts() error {
	var columns []string
	for _, t := range tables {
		columns = append(columns, "{"+t.name+"}", strings.Join(t.columns, ", "))
		db.texts["put_"+t.name], db.texts["add_"+t.name], db.texts["drop_"+t.name] = t.put(), t.add(), t.drop()
	}
	expand := strings.NewReplacer(columns...)
	names, err := fs.Glob(sqliteFiles, "sql/sqlite/*.sql")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := sqliteFiles.ReadFile(name)
		if err != nil {
			return err
		}
		db.texts[strings.TrimSuffix(path.Base(name), ".sql")] = expand.Replace(string(text))
	}
	return nil
}

func dsn(path string, pragmas ...string) string {
	query := url.Values{"_pragma": pragmas}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(sqliteFiles, "migrations/sqlite")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// close closes every connection, and its statements with it.
func (db *sqlite) close() error {
	var errs []error
	for _, stmts := range []map[string]*sql.Stmt{db.writing, db.reading} {
		for _, stmt := range stmts {
			errs = append(errs, stmt.Close())
		}
	}
	if db.writer != nil {
		errs = append(errs, db.writer.Close())
	}
	for _, pool := range db.pools {
		errs = append(errs, pool.Close())
	}
	return errors.Join(errs...)
}

// begin starts the one write transaction there is at a time.
func (db *sqlite) begin(ctx context.Context) error {
	_, err := db.writer.ExecContext(ctx, "BEGIN IMMEDIATE")
	return err
}

func (db *sqlite) commit(ctx context.Context) error {
	_, err := db.writer.ExecContext(ctx, "COMMIT")
	return err
}

// rollback ends a transaction that may have been ended by its failure already.
func (db *sqlite) rollback(ctx context.Context) error {
	_, err := db.writer.ExecContext(ctx, "ROLLBACK")
	return err
}

// save runs a statement for each row of arguments, inside the transaction.
func (db *sqlite) save(ctx context.Context, name string, rows ...[]any) error {
	stmt, err := db.prepare(ctx, name)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := values(row); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := stmt.ExecContext(ctx, row...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// values puts what the pointers of a row point to in their place, which spares
// database/sql from finding that out by reflection.
func values(row []any) (err error) {
	for i, arg := range row {
		switch arg := arg.(type) {
		case *int:
			row[i] = int64(*arg)
		case *int64:
			row[i] = *arg
		case *string:
			row[i] = *arg
		case *[]byte:
			row[i] = *arg
		case driver.Valuer:
			row[i], err = arg.Value()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load runs a query for each key, inside the transaction, and hands each row to
// scan.
func (db *sqlite) load(ctx context.Context, name string, keys [][]any, scan func(*sql.Rows) error) error {
	stmt, err := db.prepare(ctx, name)
	if err != nil {
		return err
	}
	for _, key := range keys {
		rows, err := stmt.QueryContext(ctx, key...)
		if err == nil {
			err = each(rows, scan)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// loadMany runs a query for many keys at once, inside the transaction.
func (db *sqlite) loadMany(ctx context.Context, name string, keys [][]any, scan func(*sql.Rows) error) error {
	if len(keys) == 0 {
		return nil
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return db.load(ctx, name, [][]any{{string(text)}}, scan)
}

func (db *sqlite) prepare(ctx context.Context, name string) (*sql.Stmt, error) {
	if stmt := db.writing[name]; stmt != nil {
		return stmt, nil
	}
	stmt, err := db.writer.PrepareContext(ctx, db.texts[name])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	db.writing[name] = stmt
	return stmt, nil
}

// read runs a query beside the committer, in a snapshot if there is one.
func (db *sqlite) read(ctx context.Context, tx *sql.Tx, name string, args ...any) (*sql.Rows, error) {
	stmt := db.reading[name]
	if tx != nil {
		stmt = tx.StmtContext(ctx, stmt)
	}
	return stmt.QueryContext(ctx, args...)
}

func each(rows *sql.Rows, scan func(*sql.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// put is the statement that writes a row of a table, new or not.
func (t table) put() string {
	then := "NOTHING"
	if t.fixed < len(t.columns) {
		set := make([]string, 0, len(t.columns))
		for _, c := range t.columns[t.fixed:] {
			set = append(set, c+" = excluded."+c)
		}
		then = "UPDATE SET " + strings.Join(set, ", ")
	}
	return fmt.Sprintf("%s ON CONFLICT (%s) DO %s", t.add(), strings.Join(t.columns[:t.keys], ", "), then)
}

// add is the statement that writes a new row.
func (t table) add() string {
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", t.name,
		strings.Join(t.columns, ", "), strings.Repeat(", ?", len(t.columns)-1))
}

// drop is the statement that deletes a row by its key.
func (t table) drop() string {
	return fmt.Sprintf("DELETE FROM %s WHERE %s = ?", t.name, strings.Join(t.columns[:t.keys], " = ? AND "))
}
