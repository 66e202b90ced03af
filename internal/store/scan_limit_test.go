package store

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestPagesAreBounded: a page of what is rare among many rows ends after so many of them, and
// the pages together have all there is, once.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	const rows = 2*maxScanRows + 2
	for dialect, name := range newDatabases() {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			s := openForTest(t, name(t))
			fill(t, s, rows)
			rare := func(token string) (int, string, error) {
				page, err := s.Sessions(t.Context(), "acme", token, 10, map[string]string{"rare": "yes"})
				return len(page.Rows), page.Next, err
			}
			asked := func(tenant string, size int) func(string) (int, string, error) {
				return func(token string) (int, string, error) {
					page, err := s.Approvals(t.Context(), tenant, token, size)
					return len(page.Rows), page.Next, err
				}
			}
			pagesAre(t, "sessions", rare, 1, 0, 1)
			pagesAre(t, "approvals", asked("acme", 10), 1, 0, 1)
			pagesAre(t, "one approval a page", asked("acme", 1), 1, 0, 0, 1, 0)
			pagesAre(t, "approvals of nobody", asked("nobody", 10), 0, 0, 0)
			page, err := s.Sessions(t.Context(), "acme", "", 10, nil)
			if len(page.Rows) != 10 || err != nil {
				t.Errorf("a page without a filter has %d sessions, %v", len(page.Rows), err)
			}
		})
	}
}

// newDatabases make a database of each dialect.
func newDatabases() map[string]func(*testing.T) string {
	return map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "coppice.db") },
		"PostgreSQL": func(t *testing.T) string { return pgtest.Start(t).Database(t) },
	}
}

func openForTest(t *testing.T, name string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Database: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// pagesAre reads all pages, and says how many rows each is to have.
func pagesAre(t *testing.T, what string, page func(token string) (int, string, error), want ...int) {
	t.Helper()
	token := ""
	for i, n := range want {
		got, next, err := page(token)
		if got != n || (next == "") != (i == len(want)-1) || err != nil {
			t.Errorf("%s: page %d has %d rows and leads to %q, %v; want %d of %d pages", what, i+1, got, next, err, n, len(want))
		}
		token = next
	}
}

// fill writes sessions of a tenant, of which the first and the last are rare, and an approval
// for each that is of another tenant unless the session is rare.
func fill(t *testing.T, s *Store, rows int) {
	t.Helper()
	var sessions, approvals [][]any
	other := tree.Session{ID: tree.SessionID{1}, Tenant: "other", Root: tree.TaskID{1}, CreatedAt: time.UnixMicro(1), UpdatedAt: time.UnixMicro(1)}
	sessions = append(sessions, sessionRow(&other, &sessionExtras{}))
	for n := range rows {
		var id [16]byte
		binary.BigEndian.PutUint64(id[8:], uint64(n+1))
		own := tree.Session{
			ID: id, Tenant: "acme", Root: id, Metadata: map[string]string{"rare": "no"},
			CreatedAt: time.UnixMicro(int64(n/3 + 1)), UpdatedAt: time.UnixMicro(1),
		}
		a := Approval{Session: other.ID, Approval: tree.Approval{
			ID: id, Task: id, Tool: "bash", Argument: "ls", State: tree.ApprovalOpen, AskedAt: time.UnixMicro(1),
		}}
		if n == 0 || n == rows-1 {
			own.Metadata["rare"], a.Session = "yes", own.ID
		}
		sessions, approvals = append(sessions, sessionRow(&own, &sessionExtras{})), append(approvals, approvalRow(&a))
	}
	err := s.db.writer(stallTimeout).transact(t.Context(), func(tx transaction) error {
		if err := tx.save(t.Context(), "put_sessions", sessions...); err != nil {
			return err
		}
		return tx.save(t.Context(), "put_approvals", approvals...)
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
}

// TestScansLeaveRoom: however many clients ask for pages, few of them read at once, and what a
// replica looks for itself waits for none. Who does not wait any longer is not read for.
func TestScansLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &slow{goOn: make(chan struct{})}
		s := &Store{Config: Config{Clock: time.Now}, db: db, scans: newScanLimiter(db)}
		ctx, leave := context.WithCancel(t.Context())
		id := tree.SessionID{1}
		asks := []func(context.Context) error{
			func(ctx context.Context) error {
				_, err := s.Sessions(ctx, "acme", "", 10, map[string]string{"a": "b"})
				return err
			},
			func(ctx context.Context) error { _, err := s.Approvals(ctx, "acme", "", 10); return err },
			func(ctx context.Context) error { _, err := s.SessionApprovals(ctx, id, true, "", 10); return err },
			func(ctx context.Context) error { _, err := s.Tasks(ctx, id, tree.TaskID{}, "", 10); return err },
			func(ctx context.Context) error { _, err := s.Tree(ctx, id); return err },
		}
		var clients, leaving sync.WaitGroup
		for range maxConcurrentScans {
			for _, ask := range asks {
				clients.Go(func() {
					if err := ask(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		synctest.Wait()
		leaving.Go(func() {
			if err := asks[0](ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("who leaves is told %v", err)
			}
		})
		synctest.Wait()
		leave()
		leaving.Wait()
		if n := db.under.Load(); int(n) != maxConcurrentScans {
			t.Errorf("%d clients read at once, want %d", n, maxConcurrentScans)
		}
		if _, err := s.DueTimers(t.Context(), 10); err != nil {
			t.Error(err)
		}
		close(db.goOn)
		clients.Wait()
		if n := int(db.begun.Load()); n != maxConcurrentScans*len(asks) {
			t.Errorf("%d looks were made, want %d", n, maxConcurrentScans*len(asks))
		}
	})
}

// slow is a database that does not answer clients before it is to go on.
type slow struct {
	database
	under, begun atomic.Int64
	goOn         chan struct{}
}

func (*slow) readConns() int { return maxReadConns }

func (db *slow) load(ctx context.Context, lookups ...lookup) error {
	if lookups[0].name == "timers_due" {
		return nil
	}
	db.begun.Add(1)
	db.under.Add(1)
	defer db.under.Add(-1)
	select {
	case <-db.goOn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestScansLeaveConnections: with as many long reads as may run at once, there is a connection for
// other reads, whatever the database.
func TestScansLeaveConnections(t *testing.T) {
	t.Parallel()
	databases := newDatabases()
	databases["few connections"] = func(t *testing.T) string {
		url := pgtest.Start(t).Database(t)
		if !strings.Contains(url, "?") {
			url += "?"
		}
		return url + "&pool_max_conns=4"
	}
	for dialect, name := range databases {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			s := openForTest(t, name(t))
			var scans sync.WaitGroup
			begun, goOn := make(chan struct{}), make(chan struct{})
			for range cap(s.scans.running) {
				scans.Go(func() {
					err := s.scans.load(t.Context(), lookup{"installation", [][]any{{}}, func(row row) error {
						begun <- struct{}{}
						<-goOn
						return row.Scan(new(string))
					}})
					if err != nil {
						t.Error(err)
					}
				})
				<-begun
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := s.Session(ctx, "acme", tree.SessionID{1}); !errors.Is(err, tree.ErrNoSession) {
				t.Errorf("a read beside the long ones: %v", err)
			}
			close(goOn)
			scans.Wait()
		})
	}
}
