package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestSilentDatabase: a database that does not answer is out of reach. It is no deadline of
// the call that has passed, and why it is out of reach is logged, since nobody is told. What
// the caller himself gives up remains so.
func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bound func(context.Context) (context.Context, context.CancelFunc)
		want  error
	}{
		"no deadline": {context.WithCancel, errUnreachable},
		"a deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, reachTimeout/2)
		}, context.DeadlineExceeded},
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(reachTimeout/2, cancel)
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				db := silent(t, slog.New(slog.NewTextHandler(&logged, nil)))
				ctx, cancel := test.bound(t.Context())
				defer cancel()
				err := db.load(ctx, lookup{"anything", [][]any{{}}, func(row) error { return nil }})
				for _, is := range []error{errUnreachable, context.DeadlineExceeded, context.Canceled} {
					if errors.Is(err, is) != errors.Is(test.want, is) {
						t.Errorf("the error is %v, which has to be %v alone", err, test.want)
					}
				}
				if strings.Contains(logged.String(), "deadline exceeded") != errors.Is(test.want, errUnreachable) {
					t.Errorf("logged was %q", &logged)
				}
			})
		})
	}
}

// silent is a database whose server takes connections and says nothing.
func silent(t *testing.T, log *slog.Logger) *postgres {
	t.Helper()
	return served(t, log, func(conn net.Conn) { io.Copy(io.Discard, conn) })
}

// served is a database of which somebody else serves the connections.
func served(t *testing.T, log *slog.Logger, serve func(net.Conn)) *postgres {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://silent@127.0.0.1/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = maxReadConns
	config.ShouldPing = neverPing
	config.ConnConfig.ConnectTimeout = reachTimeout
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go serve(theirs)
		return ours, nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := &postgres{config: config.ConnConfig, reads: pool, log: log, statements: map[string]pgStatement{"anything": {text: "SELECT 1"}}}
	for _, name := range []string{"batch", "batch_void", "batch_committed"} {
		db.statements[name] = pgStatement{text: "SELECT $1"}
	}
	db.coalescer.db = db
	return db
}
