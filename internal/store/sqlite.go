package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"runtime"
	"strings"

	"github.com/pressly/goose/v3"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

//go:embed migrations/sqlite/*.sql sql/sqlite/*.sql
var sqliteFiles embed.FS

// sqlite is the database of one process: one connection writes, a pool reads.
// Everything that another SQL dialect would do differently is in this file.
type sqlite struct {
	writer *sql.Conn
	stmts  map[string]*sql.Stmt // prepared on writer
	pools  []*sql.DB
	reads  *sql.DB
}

// pragmas make a commit durable before it is answered, and let readers go on
// beside the writer.
var pragmas = []string{
	"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)", "temp_store(MEMORY)",
	"cache_size(-65536)", "mmap_size(268435456)",
}

func openSQLite(ctx context.Context, path string) (*sqlite, error) {
	writes, err := sql.Open("sqlite", dsn(path, pragmas...))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	reads, err := sql.Open("sqlite", dsn(path, append([]string{"query_only(1)"}, pragmas[2:]...)...))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	reads.SetMaxOpenConns(max(4, runtime.NumCPU()))
	reads.SetMaxIdleConns(max(4, runtime.NumCPU()))
	db := &sqlite{stmts: map[string]*sql.Stmt{}, pools: []*sql.DB{writes, reads}, reads: reads}
	if err := migrate(ctx, writes); err != nil {
		return nil, errors.Join(fmt.Errorf("bringing %s up to date: %w", path, err), db.close())
	}
	if db.writer, err = writes.Conn(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), db.close())
	}
	return db, nil
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

// close closes every connection.
func (db *sqlite) close() error {
	var all []error
	for _, stmt := range db.stmts {
		all = append(all, stmt.Close())
	}
	if db.writer != nil {
		all = append(all, db.writer.Close())
	}
	for _, pool := range db.pools {
		all = append(all, pool.Close())
	}
	return errors.Join(all...)
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

// exec runs a statement once for each row of arguments.
func (db *sqlite) exec(ctx context.Context, query string, rows ...[]any) error {
	stmt, err := db.prepare(ctx, query)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := stmt.ExecContext(ctx, row...); err != nil {
			return fmt.Errorf("%s: %w", firstWords(query), err)
		}
	}
	return nil
}

// load runs a query once for each key and hands each row to scan.
func (db *sqlite) load(ctx context.Context, query string, keys [][]any, scan func(*sql.Rows) error) error {
	stmt, err := db.prepare(ctx, query)
	if err != nil {
		return err
	}
	for _, key := range keys {
		rows, err := stmt.QueryContext(ctx, key...)
		if err != nil {
			return fmt.Errorf("%s: %w", firstWords(query), err)
		}
		if err := each(rows, scan); err != nil {
			return fmt.Errorf("%s: %w", firstWords(query), err)
		}
	}
	return nil
}

func (db *sqlite) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt := db.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := db.writer.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", firstWords(query), err)
	}
	db.stmts[query] = stmt
	return stmt, nil
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
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES (?%s)", t.name,
		strings.Join(t.columns, ", "), strings.Repeat(", ?", len(t.columns)-1))
	key := strings.Join(t.columns[:t.keys], ", ")
	if t.keys == len(t.columns) {
		fmt.Fprintf(&b, " ON CONFLICT (%s) DO NOTHING", key)
		return b.String()
	}
	fmt.Fprintf(&b, " ON CONFLICT (%s) DO UPDATE SET ", key)
	for i, c := range t.columns[t.keys:] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s = excluded.%s", c, c)
	}
	return b.String()
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

// get is a query for the rows that a condition holds for.
func (t table) get(where string) string {
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s", strings.Join(t.columns, ", "), t.name, where)
}

// byKey is get for the first n columns of the key.
func (t table) byKey(n int) string {
	return t.get(strings.Join(t.columns[:n], " = ? AND ") + " = ?")
}

// firstWords shows which statement failed without its values.
func firstWords(query string) string {
	words := strings.Fields(query)
	return strings.Join(words[:min(3, len(words))], " ")
}
