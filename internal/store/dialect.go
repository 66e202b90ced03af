package store

import (
	"context"
	"database/sql/driver"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// database is an open database. Each dialect of SQL has its own kind; statements
// go by name: that of their file, or put_, add_ or drop_ with that of a table.
type database interface {
	reader
	// loadCoalesced is load of a few rows that are found by their keys, which are not much to
	// read: it may be made to wait for others' looks, to go with theirs.
	loadCoalesced(ctx context.Context, lookups ...lookup) error
	// exclusive reports whether nobody else can have the database open.
	exclusive() bool
	// layout is how rows of the newest form are laid out.
	layout() layout
	// writer opens a connection that writes, each transaction of which may take so long.
	// There is only one, which takes what it takes, where the database is had alone.
	writer(timeout time.Duration) writer
	// close closes all connections.
	close() error
}

// reader runs queries.
type reader interface {
	// load runs queries. They are sent together, and take effect in their order.
	// Beside the committers all of them see one state of the database.
	load(ctx context.Context, lookups ...lookup) error
}

// writer makes one transaction after another.
type writer interface {
	// transact lets work be done in a transaction and commits it. It may do so
	// again from the start, when nothing of a first try was stored. An error that is
	// ErrUnavailable says that the database is out of reach, and whether the outcome
	// is unknown; after any other one nothing is stored.
	transact(ctx context.Context, work func(transaction) error) error
}

// transaction reads and writes what one transaction does.
type transaction interface {
	reader
	// loadLater is load whose rows may come later, at the latest when the transaction is
	// committed, but before those of the next load.
	loadLater(ctx context.Context, lookups ...lookup) error
	// save runs a statement for each row of arguments. It may fail later, at the
	// latest when the transaction is committed, but before the next load.
	save(ctx context.Context, name string, rows ...[]any) error
}

// lookup is a query, for each key, and what is done with each row.
type lookup struct {
	name string
	keys [][]any
	scan func(row) error
}

// row is a row of a result.
type row interface {
	Scan(to ...any) error
}

//go:embed migrations sql
var files embed.FS

// readStatements gives the statements of a dialect by name: those of its own, then
// those that all dialects share. In a file, a word in braces stands for what words
// says, a table's name for its columns, and "ended" for the runs that have ended.
func readStatements(dialect string, words map[string]string) (map[string]string, error) {
	expansions := []string{"{ended}", endedRuns()}
	for _, t := range tables {
		expansions = append(expansions, "{"+t.name+"}", strings.Join(t.columns, ", "))
		if t.name == "ready" {
			expansions = append(expansions, "{due}", "due."+strings.Join(t.columns, ", due."))
		}
	}
	for word, text := range words {
		expansions = append(expansions, "{"+word+"}", text)
	}
	expand := strings.NewReplacer(expansions...)
	statements := map[string]string{}
	for _, pattern := range []string{"sql/*.sql", "sql/" + dialect + "/*.sql"} {
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := files.ReadFile(name)
			if err != nil {
				return nil, err
			}
			statements[strings.TrimSuffix(path.Base(name), ".sql")] = expand.Replace(string(text))
		}
	}
	purgeStatements(statements)
	return statements, nil
}

// values puts what the pointers of a row point to in their place: int64, string,
// bool, []byte, or nil for NULL.
func values(row []any) (err error) {
	for i, arg := range row {
		switch arg := arg.(type) {
		case nil:
		case *int:
			row[i] = int64(*arg)
		case *int64:
			row[i] = *arg
		case *string:
			row[i] = *arg
		case *bool:
			row[i] = *arg
		case *[]byte:
			row[i] = *arg
		case driver.Valuer:
			row[i], err = arg.Value()
		default:
			row[i], err = driver.DefaultParameterConverter.ConvertValue(arg)
		}
		if err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return nil
}

// onConflict is what put does with a row that is there already.
func (t table) onConflict() string {
	then := "NOTHING"
	if t.fixed < len(t.columns) {
		set := make([]string, 0, len(t.columns))
		for _, c := range t.columns[t.fixed:] {
			set = append(set, c+" = excluded."+c)
		}
		then = "UPDATE SET " + strings.Join(set, ", ")
	}
	return fmt.Sprintf(" ON CONFLICT (%s) DO %s", strings.Join(t.columns[:t.keys], ", "), then)
}
