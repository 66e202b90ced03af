package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/store/storetest"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestPostgres runs the suite with rows of the newest form, and beside a release that reads only
// the oldest.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for name, opened := range map[string]func(*store.Store){"Newest": store.ReadByAll, "Oldest": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Dialect{
				Fresh:  func(t *testing.T) store.Config { return store.Config{Database: server.Database(t), Committers: 3} },
				Break:  breakPostgres,
				Opened: opened,
			}.Run(t)
		})
	}
}

// breakPostgres makes the schema refuse events of sessions.
func breakPostgres(t *testing.T, c store.Config, of ...tree.SessionID) (mend func()) {
	t.Helper()
	exec := func(statement string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), c.Database)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for _, id := range of {
		ids = append(ids, fmt.Sprintf(`'\x%x'`, id[:]))
	}
	exec("ALTER TABLE events ADD CONSTRAINT broken CHECK (session NOT IN (" + strings.Join(ids, ", ") + ")) NOT VALID")
	return func() { exec("ALTER TABLE events DROP CONSTRAINT broken") }
}
