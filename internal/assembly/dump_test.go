package assembly_test

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func content(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var binary = regexp.MustCompile(`\\\\x[0-9a-f]+|\\x[0-9a-f]+`)

// dump gives all rows of all tables of a PostgreSQL database, and once more with
// their binary columns as they are.
func dump(t *testing.T, database string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	query := func(sql string) []string {
		rows, err := conn.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	tables := query(`SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) FROM information_schema.tables
		WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`)
	if len(tables) < 10 {
		t.Fatalf("the database has the tables %v only", tables)
	}
	var out strings.Builder
	for _, table := range tables {
		for _, row := range query("SELECT x::text FROM " + table + " x") {
			out.WriteString(row + "\n")
			for _, text := range binary.FindAllString(row, -1) {
				data, err := hex.DecodeString(text[strings.IndexByte(text, 'x')+1:])
				if err != nil {
					t.Fatal(err)
				}
				out.Write(data)
				out.WriteByte('\n')
			}
		}
	}
	return out.String()
}
