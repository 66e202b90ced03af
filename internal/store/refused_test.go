package store_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestRefusedWrites: while a database does not take writes, calls fail as
// unavailable and leave nothing behind; what was acknowledged is there; and with
// nobody's help all goes on once it takes them again.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	t.Run("DiskFull", func(t *testing.T) {
		t.Parallel()
		db := running(t, fresh(t))
		pages := func(n int) func() {
			return func() {
				if err := db.LimitPages(t.Context(), n); err != nil {
					t.Error(err)
				}
			}
		}
		refusedWrites(t, db, false, pages(400), pages(1<<30))
	})
	server := pgtest.Start(t)
	admin := connect(t, server.URL())
	sql := func(conn *pgx.Conn, statements ...string) func() {
		return func() {
			for _, s := range statements {
				if _, err := conn.Exec(t.Context(), s); err != nil {
					t.Errorf("%s: %v", s, err)
				}
			}
		}
	}
	t.Run("ReadOnly", func(t *testing.T) {
		url := server.Database(t)
		name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
		hangUp := fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", name)
		refusedWrites(t, replicas(t, url, 1)[0], true,
			sql(admin, "ALTER DATABASE "+name+" SET default_transaction_read_only = on", hangUp),
			sql(admin, "ALTER DATABASE "+name+" RESET default_transaction_read_only"))
	})
	t.Run("NoRights", func(t *testing.T) {
		url := server.Database(t)
		owner := connect(t, url)
		replicas(t, url, 1)
		sql(owner, "CREATE ROLE app LOGIN", "GRANT ALL ON ALL TABLES IN SCHEMA public TO app")()
		db := replicas(t, strings.Replace(url, "//postgres@", "//app@", 1), 1)[0]
		refusedWrites(t, db, false, sql(owner, "REVOKE INSERT ON events FROM app"), sql(owner, "GRANT INSERT ON events TO app"))
	})
}

// TestARoleThatMayMakeNoTables is told who has to be the database's owner, and that is all it takes.
func TestARoleThatMayMakeNoTables(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	admin := connect(t, server.URL())
	for _, statement := range []string{`CREATE ROLE "an app" LOGIN`, `CREATE DATABASE "its data"`} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	c := store.Config{Database: strings.Replace(strings.Replace(server.URL(), "//postgres@", "//an%20app@", 1), "/postgres?", "/its%20data?", 1)}
	_, err := store.Open(t.Context(), c)
	const advice = `ALTER DATABASE "its data" OWNER TO "an app"`
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), advice) {
		t.Fatalf("it is told %v, not %s", err, advice)
	}
	if _, err := admin.Exec(t.Context(), advice); err != nil {
		t.Fatal(err)
	}
	running(t, c)
}

// TestWhatThePostgresIsNot: who puts a pooler between, or a setting into the URL that no server
// knows, is told so, instead of trying again.
func TestWhatThePostgresIsNot(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		pgtest.Start(t).URL() + "&frobnicate=1":            "does not know a setting",
		"postgres://app@" + pooler(t) + "?sslmode=disable": "connect to PostgreSQL itself",
	} {
		_, err := store.Open(t.Context(), store.Config{Database: url})
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: it is told %v, not %s", url, err, want)
		}
	}
}

// pooler refuses the settings of each connection, as pgbouncer does. It gives its address.
func pooler(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			from := pgproto3.NewBackend(conn, conn)
			if _, err := from.ReceiveStartupMessage(); err == nil {
				from.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: jit"})
				_ = from.Flush() // nobody may wait for it
			}
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// bulky is text that takes room however it is packed.
func bulky() string {
	random := make([]byte, 10<<10)
	_, _ = rand.Read(random) // it never fails
	return hex.EncodeToString(random)
}

// refusedWrites has several write, to sessions of their own and to one that they
// share, and the database refuse what they write. If it hangs up as well, a commit may
// be on its way then, and whose it is may be told that its outcome is unknown.
func refusedWrites(t *testing.T, db *store.Store, hangsUp bool, refuse, mend func()) {
	t.Helper()
	const writers = 6
	shared := newSession()
	if _, err := db.Update(t.Context(), shared, open(shared)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	acknowledged := map[tree.SessionID]map[string]bool{shared: {}}
	unknown := map[string]bool{} // the connection broke in the middle of the commit
	ids := make([]tree.SessionID, writers)
	for i := range ids {
		ids[i] = newSession()
		acknowledged[ids[i]] = map[string]bool{}
		if _, err := db.Update(t.Context(), ids[i], open(ids[i])); err != nil {
			t.Fatal(err)
		}
	}
	write := func(i, n int) error {
		id := ids[i]
		if n%2 == 1 {
			id = shared
		}
		cmd := spawn(bulky())
		cmd.Child.Description = fmt.Sprintf("task %d of %d", n, i)
		_, err := db.Update(t.Context(), id, cmd)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			acknowledged[id][cmd.Child.Description] = true
		case hangsUp && strings.Contains(err.Error(), "unknown"):
			unknown[cmd.Child.Description] = true
		case !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "unknown"):
			t.Errorf("a refused write was answered %v", err)
		}
		return err
	}
	var wg sync.WaitGroup
	begun := make(chan struct{}, writers)
	for i := range writers {
		wg.Go(func() {
			var err error
			for n := 0; err == nil; n++ {
				if err = write(i, n); n == 2 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range writers {
		<-begun
	}
	refuse()
	wg.Wait()
	check := func() {
		t.Helper()
		for id, want := range acknowledged {
			holds(t, db, id, want, unknown)
		}
	}
	check()
	if _, err := db.Heartbeat(t.Context(), "replica-0", 0, time.Minute); err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a beat was answered %v", err)
	}
	mend()
	if _, err := db.Heartbeat(t.Context(), "replica-0", 0, time.Minute); err != nil {
		t.Errorf("a beat after the database takes writes again: %v", err)
	}
	for i := range writers {
		if err := write(i, 1<<20); err != nil {
			t.Errorf("after the database takes writes again: %v", err)
		}
	}
	check()
}

// holds checks that a session has these tasks below its root and no others but those
// of which nobody knows, and breaks no rule.
func holds(t *testing.T, db *store.Store, id tree.SessionID, want, unknown map[string]bool) {
	t.Helper()
	rows, err := db.Rows(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range tree.Diagnose(rows) {
		t.Errorf("%s: %s: %s", v.Rule, v.Task, v.Detail)
	}
	there := 0
	for i := range rows.Tasks {
		switch task := &rows.Tasks[i]; {
		case want[task.Description]:
			there++
		case task.Depth > 0 && !unknown[task.Description]:
			t.Errorf("%s was refused, and is there", task.Description)
		}
	}
	if there != len(want) {
		t.Errorf("%d tasks are there of %d that were acknowledged", there, len(want))
	}
}
