package own

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/bench/installation"
)

// statements measures what PostgreSQL executes for the tasks of a fan-out of 1,000, and its
// cost.
func statements(ctx context.Context, l *Lab) error {
	const tasks = 1000
	return l.withInstallation(ctx, installation.Options{Statements: true}, func(i *installation.Installation) error {
		if _, err := i.Do(ctx, installation.Parent, "fan 100"); err != nil { // warm
			return err
		}
		conn, err := pgx.Connect(ctx, i.Postgres.URL())
		if err != nil {
			return fmt.Errorf("asking the database: %w", err)
		}
		defer conn.Close(ctx) //nolint:errcheck // it was only queried
		if _, err := conn.Exec(ctx, `CREATE EXTENSION pg_stat_statements`); err != nil {
			return fmt.Errorf("counting statements: %w", err)
		}
		if _, err := conn.Exec(ctx, `SELECT pg_stat_statements_reset()`); err != nil {
			return fmt.Errorf("counting statements anew: %w", err)
		}
		session, err := i.Do(ctx, installation.Parent, fmt.Sprint("fan ", tasks))
		if err != nil {
			return err
		}
		rows, err := conn.Query(ctx, `SELECT query, calls, rows, total_exec_time, wal_bytes::bigint FROM pg_stat_statements
			ORDER BY total_exec_time DESC LIMIT 30`)
		if err != nil {
			return fmt.Errorf("asking the database: %w", err)
		}
		type statement struct {
			Query  string
			Calls  int64
			Rows   int64
			Took   float64 // in milliseconds
			Logged int64   // in bytes
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[statement])
		if err != nil {
			return fmt.Errorf("asking the database: %w", err)
		}
		if err := i.CheckCounts(ctx, session, 1+tasks, 2+tasks); err != nil {
			return err
		}
		for _, s := range found {
			name := shortSQL(s.Query)
			err := errors.Join(
				l.Report(name+": time", "µs/task", 1000*s.Took/tasks),
				l.Report(name+": calls", "/task", float64(s.Calls)/tasks),
				l.Report(name+": rows", "/call", float64(s.Rows)/float64(s.Calls)),
				l.Report(name+": WAL", "B/task", float64(s.Logged)/tasks))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// shortSQL returns the start and the end of a statement, on one line, without comments.
func shortSQL(sql string) string {
	const begin, end = 40, 80
	var words []string
	for line := range strings.Lines(sql) {
		code, _, _ := strings.Cut(line, "--")
		words = append(words, strings.Fields(code)...)
	}
	text := strings.ReplaceAll(strings.Join(words, " "), "|", "¦")
	if len(text) > begin+end {
		text = text[:begin] + " … " + text[len(text)-end:]
	}
	return strings.ToValidUTF8(text, "")
}
