package store

import (
	"context"
	"database/sql/driver"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"
)

// database is an open database, one implementation per dialect of SQL. Statements are named after
// their files, or put_, add_ or drop_ and a table.
type database interface {
	reader
	// loadCoalesced is load for a few rows that are found by their keys. It may wait to share a
	// round trip with other reads.
	loadCoalesced(ctx context.Context, lookups ...lookup) error
	// exclusive reports whether nobody else can have the database open.
	exclusive() bool
	// readConns is how many connections read at most.
	readConns() int
	// layout is how rows of the newest form are laid out.
	layout() layout
	// writer opens a connection that writes; timeout limits each transaction. An exclusive database
	// has only one writer, without a timeout.
	writer(timeout time.Duration) writer
	// close closes all connections.
	close() error
}

// reader runs queries.
type reader interface {
	// load runs queries. They are sent together and take effect in order. Outside transactions,
	// they all see one state of the database.
	load(ctx context.Context, lookups ...lookup) error
}

// writer makes one transaction after another.
type writer interface {
	// transact runs work in a transaction and commits it. It may run work again from the start, if
	// nothing of the first attempt was stored. ErrUnavailable says that the database cannot be
	// reached, and whether the outcome is unknown; after any other error nothing is stored.
	//
	// It calls stored when the transaction outlives this process, which may be before it outlives
	// the machine (see Config.EarlyRuns). It is durable when transact returns.
	transact(ctx context.Context, work func(transaction) error, stored func()) error
}

// transaction reads and writes within one transaction.
type transaction interface {
	reader
	// loadLater is load whose rows may arrive later: before those of the next load, and at the
	// latest when the transaction is committed.
	loadLater(ctx context.Context, lookups ...lookup) error
	// save runs a statement once for each row of arguments. It may fail later: before the next
	// load, and at the latest when the transaction is committed.
	save(ctx context.Context, name string, rows ...[]any) error
	// sendAhead lets the database process what was saved, while more is prepared.
	sendAhead(ctx context.Context)
}

// lookup is a query that runs once per key, and the function that scans each row.
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

var (
	// indexHint is the place of a hint in a statement.
	indexHint = regexp.MustCompile(`\{by (\w+)\}`)
	// bracedWord is one that nothing has taken the place of.
	bracedWord = regexp.MustCompile(`\{\w[^{}]*\}`)
)

// readStatements gives the statements of a dialect by name: its own and those that all dialects
// share. In a file, a word in braces stands for its text in words, the name of a table for its
// columns, {by i} for the hint to use the index i, {ended} for the ended runs, and {unlisted} for what
// finds ready runs without a row. Without a prefix
// of hints there are none. The columns and the state of tasks are those of tasks that
// are joined with their {claims}; those of calls follow from what has ended.
func readStatements(dialect string, words map[string]string, hint string) (map[string]string, error) {
	expansions := []string{
		"{ended}", endedRuns(), "{task state}", columnWithClaim("state"), "{task nonce}", columnWithClaim("nonce"), "{unlisted}", unlistedRuns,
		"{call state}", settledColumns["state"], "{refers to outcome}", refersToOutcome,
	}
	for _, t := range tables {
		columns := t.columns
		switch t.name {
		case "tasks":
			columns = columnsWithClaims()
		case "calls":
			columns = columnsWithOutcomes(columns)
		}
		expansions = append(expansions, "{"+t.name+"}", strings.Join(columns, ", "))
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
			statement := indexHint.ReplaceAllStringFunc(expand.Replace(string(text)), func(by string) string {
				if hint == "" {
					return ""
				}
				return hint + indexHint.FindStringSubmatch(by)[1]
			})
			if unknown := bracedWord.FindString(statement); unknown != "" {
				return nil, fmt.Errorf("%s: %s stands for nothing", name, unknown)
			}
			statements[strings.TrimSuffix(path.Base(name), ".sql")] = statement
		}
	}
	purgeStatements(statements)
	return statements, nil
}

// values replaces the pointers in a row by their values: int64, string, bool, []byte, or nil for
// NULL.
func values(row []any) (err error) {
	for i, arg := range row {
		switch arg := arg.(type) {
		case nil, int64, string, bool, []byte:
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

// onConflict is the clause by which put overwrites an existing row.
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
