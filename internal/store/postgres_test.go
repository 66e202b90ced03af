package store_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

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
	empty := migrated(t, server)
	newest := func(s *store.Store) {
		store.UnlistAll(s)
		store.ShareSoon(s)
	}
	for name, opened := range map[string]func(*store.Store){"Newest": newest, "Oldest": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Dialect{
				Fresh:  func(t *testing.T) store.Config { return store.Config{Database: server.Copy(t, empty), Committers: 3} },
				Break:  breakPostgres,
				Opened: opened,
			}.Run(t)
		})
	}
}

// migrated gives a database with the schema alone: making it anew takes a test longer than most of
// what is tested.
func migrated(t *testing.T, server *pgtest.Server) (url string) {
	t.Helper()
	url = server.Database(t)
	db, err := store.Open(t.Context(), store.Config{Database: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	execPostgres(t, url, "DELETE FROM meta") // who opens a copy is an installation of its own
	return url
}

// An installation may name its connections, to tell it from others on the same server.
func TestTheNameOfConnections(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for setting, want := range map[string]string{"": "coppice", "application_name=staging": "staging"} {
		url := server.Database(t)
		with := url + "&" + setting
		if !strings.Contains(url, "?") {
			with = url + "?" + setting
		}
		db, err := store.Open(t.Context(), store.Config{Database: with})
		if err != nil {
			t.Fatal(err)
		}
		var named, all int
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		const others = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
		if err := conn.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE application_name = $1) FROM pg_stat_activity WHERE "+others,
			want).Scan(&all, &named); err != nil || all == 0 || all != named {
			t.Errorf("%d of %d connections are named %s: %v", named, all, want, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
		end(t, db)
	}
}

// breakPostgres makes the schema refuse events of sessions.
func breakPostgres(t *testing.T, c store.Config, of ...tree.SessionID) (mend func()) {
	t.Helper()
	var ids []string
	for _, id := range of {
		ids = append(ids, fmt.Sprintf(`'\x%x'`, id[:]))
	}
	execPostgres(t, c.Database, "ALTER TABLE events ADD CONSTRAINT broken CHECK (session NOT IN ("+strings.Join(ids, ", ")+")) NOT VALID")
	return func() { execPostgres(t, c.Database, "ALTER TABLE events DROP CONSTRAINT broken") }
}

func execPostgres(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestAServerForWrites: a URL that names several servers may ask for the one that accepts writes,
// and the connections that only read are to that one too.
func TestAServerForWrites(t *testing.T) {
	t.Parallel()
	for _, attrs := range []string{"read-write", "primary"} {
		url := pgtest.Start(t).Database(t)
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		db, err := store.Open(t.Context(), store.Config{Database: url + separator + "target_session_attrs=" + attrs})
		if err != nil {
			t.Fatal(err)
		}
		isolation, readOnly, err := store.ReadTransaction(t.Context(), db)
		if err != nil || isolation != "repeatable read" || readOnly != "on" {
			t.Errorf("a transaction of one that reads is %q, read-only is %q, %v", isolation, readOnly, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOneOfTheServersDoesNotRespond: the others are reached, also by the connection of heartbeats,
// which has the least patience.
func TestOneOfTheServersDoesNotRespond(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	url := strings.Replace(pgtest.Start(t).Database(t), "@", "@"+silent.Addr().String()+",", 1)
	db := running(t, store.Config{Database: url})
	if _, err := db.Heartbeat(t.Context(), "replica", 1, time.Minute); err != nil {
		t.Error(err)
	}
}
