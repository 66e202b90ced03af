package store

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// muting is a server that answers, over the connections that have not fallen silent, and refuses
// what it is asked first, once with each of some codes.
type muting struct {
	fallen  atomic.Int64
	deaf    atomic.Bool // it answers no new connection either
	refuses chan string // nil: nothing
}

// fall has all connections that there are fall silent for ever.
func (m *muting) fall() { m.fallen.Add(1) }

func (m *muting) serve(conn net.Conn) {
	defer conn.Close()
	since, backend := m.fallen.Load(), pgproto3.NewBackend(conn, conn)
	hello, err := backend.ReceiveStartupMessage()
	if _, starts := hello.(*pgproto3.StartupMessage); !starts || err != nil {
		return // somebody who wants a query cancelled
	}
	if m.deaf.Load() {
		io.Copy(io.Discard, conn)
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	backend.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for backend.Flush() == nil {
		asked, err := backend.Receive()
		if err != nil {
			return
		}
		if m.fallen.Load() > since {
			io.Copy(io.Discard, conn)
			return
		}
		if query, is := asked.(*pgproto3.Query); is {
			select {
			case code := <-m.refuses:
				backend.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: code})
			default:
				answer(backend, query.String)
			}
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}

// answer answers each statement, with a row that says false if it selects.
func answer(backend *pgproto3.Backend, query string) {
	for statement := range strings.SplitSeq(query, ";") {
		tag := strings.TrimSpace(statement)
		switch {
		case tag == "":
			continue
		case strings.HasPrefix(tag, "SELECT"):
			backend.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{DataTypeOID: pgtype.BoolOID, DataTypeSize: 1}}})
			backend.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("f")}})
			tag = "SELECT 1"
		}
		backend.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
	}
}

// TestConnectionsFallSilent: who reads over a connection that has fallen silent hears within a bound
// that the database is out of reach, also if he would wait for ever, or for longer than that.
// Who reads after him gets another connection at once.
func TestConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	type read = func(*postgres, context.Context, ...lookup) error
	for name, test := range map[string]struct {
		read read
		most time.Duration
	}{
		"load":   {(*postgres).load, stallTimeout},
		"glance": {(*postgres).loadCoalesced, 2 * reachTimeout}, // one may wait for another
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var server muting
				db := served(t, slog.New(slog.DiscardHandler), server.serve)
				looks := func(ctx context.Context, read read) error {
					return read(db, ctx, lookup{"anything", [][]any{{}}, func(row) error { return nil }})
				}
				many := func(read read, each func(error)) {
					deadline, cancel := context.WithTimeout(t.Context(), test.most+reachTimeout)
					defer cancel()
					var looking sync.WaitGroup
					for i := range maxReadConns {
						looking.Go(func() { each(looks([]context.Context{t.Context(), deadline}[i%2], read)) })
					}
					looking.Wait()
				}
				many((*postgres).load, func(err error) {
					if err != nil {
						t.Errorf("a server that answers: %v", err)
					}
				})
				server.fall()
				began := time.Now()
				var silent atomic.Int64
				many(test.read, func(err error) {
					switch {
					case errors.Is(err, errUnreachable):
						silent.Add(1)
					case err != nil:
						t.Errorf("who met silence was told %v", err)
					}
				})
				if took := time.Since(began); took > test.most || silent.Load() == 0 {
					t.Errorf("%d have met silence, and all were answered after %s, want %s at most", silent.Load(), took, test.most)
				}
				again := time.Now()
				if err := looks(t.Context(), test.read); err != nil || time.Since(again) > 0 {
					t.Errorf("afterwards a look took %s: %v", time.Since(again), err)
				}
			})
		})
	}
}

// TestHeartbeatsFallSilent: a heartbeat whose connection has fallen silent is made over another one before it is missed.
func TestHeartbeatsFallSilent(t *testing.T) {
	t.Parallel()
	const missed = 3 * time.Second // after the one before, which was a second ago
	synctest.Test(t, func(t *testing.T) {
		var server muting
		db := served(t, slog.New(slog.DiscardHandler), server.serve)
		beats := db.writer(heartbeatTimeout)
		beat := func() {
			began := time.Now()
			err := beats.transact(t.Context(), func(transaction) error { return nil }, func() {})
			if took := time.Since(began); err != nil || took >= missed {
				t.Errorf("it took %s: %v", took, err)
			}
		}
		beat()
		first := db.writers[0].conn.PgConn()
		server.fall()
		beat()
		if err := db.writers[0].close(t.Context()); err != nil {
			t.Error(err)
		}
		<-first.CleanupDone()
	})
}

// TestGivingUpInSilence: a commit that a silent server leaves in doubt is not looked into for long once
// the writer has to end, be it from then on or already meanwhile.
func TestGivingUpInSilence(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]time.Duration{"while it commits": time.Second, "while it finds out": heartbeatTimeout + time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var server muting
				db := served(t, slog.New(slog.DiscardHandler), server.serve)
				w := db.writer(heartbeatTimeout)
				transact := func(ctx context.Context) error {
					return w.transact(ctx, func(transaction) error { return nil }, func() {})
				}
				if err := transact(t.Context()); err != nil {
					t.Fatal(err)
				}
				first := w.(*pgWriter).conn.PgConn()
				server.deaf.Store(true)
				server.fall()
				ctx, end := context.WithTimeout(t.Context(), begun)
				defer end()
				began := time.Now()
				err := transact(ctx)
				if took := time.Since(began) - begun; took > finishTimeout || !errors.Is(err, errOutcomeUnknown) {
					t.Errorf("the commit was given up %s after it had to, want %s at most: %v", took, finishTimeout, err)
				}
				<-first.CleanupDone()
			})
		})
	}
}

// TestPlacesInSilence: connections that have fallen silent keep their places no longer than those have patience who wait
// for them, nor much longer than those who have given them up.
func TestPlacesInSilence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deadline time.Duration // of those who have met silence
		waits    time.Duration // before somebody else comes
		most     time.Duration // that he waits
		want     error
	}{
		"given up":   {time.Second, time.Second, closeTimeout, nil},
		"waited for": {time.Hour, 0, reachTimeout, errUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var server muting
				db := served(t, slog.New(slog.DiscardHandler), server.serve)
				var looking sync.WaitGroup
				var apart sync.WaitGroup // until each has a connection to itself
				all := func(ctx context.Context, answered bool) {
					apart.Add(maxReadConns)
					for range maxReadConns {
						looking.Go(func() {
							err := db.load(ctx, lookup{"anything", [][]any{{}}, func(row) error {
								apart.Done()
								apart.Wait()
								return nil
							}})
							if (err == nil) != answered {
								t.Errorf("a load was answered with %v, want an answer: %v", err, answered)
							}
						})
					}
				}
				all(t.Context(), true)
				looking.Wait()
				if n := db.reads.Stat().TotalConns(); n != maxReadConns {
					t.Fatalf("there are %d connections", n)
				}
				server.fall()
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				all(ctx, false)
				time.Sleep(test.waits) // of the test's own clock
				synctest.Wait()
				began := time.Now()
				err := db.loadCoalesced(t.Context(), lookup{"anything", [][]any{{}}, func(row) error { return nil }})
				if took := time.Since(began); took > test.most || !errors.Is(err, test.want) {
					t.Errorf("a glance took %s, want %s at most: %v, want %v", took, test.most, err, test.want)
				}
				looking.Wait()
			})
		})
	}
}

// TestOneByOneInSilence: of those who come one by one and soon give up, only the first meets connections that have fallen silent.
func TestOneByOneInSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var server muting
		db := served(t, slog.New(slog.DiscardHandler), server.serve)
		var idle [maxReadConns]*pgxpool.Conn
		for i := range idle {
			var err error
			if idle[i], err = db.reads.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, conn := range idle {
			conn.Release()
		}
		server.fall()
		began, waited := time.Now(), 0
		for range 2 * maxReadConns {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := db.loadCoalesced(ctx, lookup{"anything", [][]any{{}}, func(row) error { return nil }})
			cancel()
			if err == nil {
				break
			}
			waited++
			time.Sleep(time.Second) // of the test's own clock
		}
		if waited != 1 {
			t.Errorf("%d were not answered, until one was after %s", waited, time.Since(began))
		}
	})
}

// TestThrownOutOfADeadlock: who reads and is thrown out, since others are in his way, looks again.
func TestThrownOutOfADeadlock(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*postgres, context.Context, ...lookup) error{"load": (*postgres).load, "glance": (*postgres).loadCoalesced} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := muting{refuses: make(chan string, 2)}
				server.refuses <- codeDeadlock
				server.refuses <- codeSerialize
				db := served(t, slog.New(slog.DiscardHandler), server.serve)
				rows := 0
				err := read(db, t.Context(), lookup{"anything", [][]any{{}}, func(row) error { rows++; return nil }})
				if err != nil || rows != 1 || len(server.refuses) > 0 {
					t.Errorf("%d rows were read, with %d refusals to come: %v", rows, len(server.refuses), err)
				}
			})
		})
	}
}
