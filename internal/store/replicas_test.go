package store_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// replicas opens several stores on one new database, at once.
func replicas(t *testing.T, url string, n int) []*store.Store {
	t.Helper()
	dbs := make([]*store.Store, n)
	var opening sync.WaitGroup
	for i := range dbs {
		opening.Go(func() {
			db, err := store.Open(t.Context(), store.Config{Database: url, Replica: fmt.Sprint("replica-", i), Committers: 1 + i})
			if err != nil {
				t.Error(err)
				return
			}
			dbs[i] = db
		})
	}
	opening.Wait()
	if slices.Contains(dbs, nil) {
		t.FailNow()
	}
	for _, db := range dbs {
		commits(t, db)
	}
	return dbs
}

// TestReplicas: several replicas have a database open at once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for name, test := range map[string]func(*testing.T, *pgtest.Server){
		"Open": replicasOpen, "Write": replicasWrite, "Pick": replicasPick, "Create": replicasCreate,
		"Clock": databaseClock, "Culprit": culprit, "Batches": oldBatches, "Hold": replicasHold, "StrayRow": strayRow,
		"Beat": beatsAlone, "Silence": beatsInSilence, "Repeat": replicasRepeat, "Exist": replicasExist, "Claim": claimsInOrder, "Purge": replicasPurge, "PurgeApart": replicasPurgeApart,
		"Order": replicasOrder,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server)
		})
	}
}

// replicasOpen: those that come to a new database at once agree which it is.
func replicasOpen(t *testing.T, server *pgtest.Server) {
	dbs := replicas(t, server.Database(t), 3)
	for _, db := range dbs[1:] {
		if a, b := dbs[0].Installation(), db.Installation(); a == "" || a != b {
			t.Errorf("one replica serves installation %q, another %q", a, b)
		}
	}
}

// replicasWrite: writes of several replicas to the same sessions leave no gap, and
// none is lost.
func replicasWrite(t *testing.T, server *pgtest.Server) {
	const sessions, writers, each = 4, 8, 15
	dbs := replicas(t, server.Database(t), 2)
	ids := make([]tree.SessionID, sessions)
	for i := range ids {
		ids[i] = newSession()
		if _, err := dbs[0].Update(t.Context(), ids[i], open(ids[i])); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range sessions * writers {
		wg.Go(func() {
			for n := range each {
				if _, err := dbs[(i+n)%2].Update(t.Context(), ids[i%sessions], spawn("work")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		checkLog(t, dbs[0], id)
		tasks, err := dbs[1].Tree(t.Context(), id)
		if err != nil || len(tasks) != 1+writers*each {
			t.Errorf("a session has %d tasks, not %d (%v)", len(tasks), 1+writers*each, err)
		}
	}
}

// replicasPick: no run is announced by two replicas, sessions take turns whoever
// picks, and a replica that comes later knows how far the turns have come.
func replicasPick(t *testing.T, server *pgtest.Server) {
	const sessions, each = 3, 20
	dbs := replicas(t, server.Database(t), 2)
	fill := func(db *store.Store) tree.SessionID {
		id := newSession()
		if _, err := db.Update(t.Context(), id, open(id)); err != nil {
			t.Fatal(err)
		}
		for range each {
			if _, err := db.Update(t.Context(), id, spawn("work")); err != nil {
				t.Fatal(err)
			}
		}
		return id
	}
	var filled [sessions]tree.SessionID
	for i := range sessions {
		filled[i] = fill(dbs[i%2])
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken := map[tree.TaskID]int{}
	for _, db := range dbs {
		wg.Go(func() {
			for n := 2; n <= sessions*each; n += 2 {
				got, err := db.PickReady(t.Context(), n, time.Hour)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, r := range got {
					taken[r.Task]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(taken) != sessions*each {
		t.Errorf("%d runs were announced, not %d", len(taken), sessions*each)
	}
	for task, n := range taken {
		if n != 1 {
			t.Errorf("task %s was announced %d times", task, n)
		}
	}
	// What a replica has heard of how far turns have come it goes on from for a moment; where
	// it has to read a session it hears it anew.
	for i, db := range dbs {
		_, err := db.Update(t.Context(), filled[1-i], tree.Expire{})
		if tree.CodeOf(err) == tree.CodeInternal {
			t.Error(err)
		}
	}
	// One that was there before goes on where it is, and a new one starts there.
	older, younger := fill(dbs[0]), fill(dbs[1])
	got, err := dbs[1].PickReady(t.Context(), sessions*each+10, time.Hour)
	counts := map[tree.SessionID]int{}
	for _, r := range got {
		counts[r.Session]++
	}
	if err != nil || counts[older] != 5 || counts[younger] != 5 {
		t.Errorf("two sessions had %d and %d turns (%v)", counts[older], counts[younger], err)
	}
}

// replicasCreate: a request to open a session that comes to two replicas at once
// has one answer, in whatever company it comes.
func replicasCreate(t *testing.T, server *pgtest.Server) {
	const rounds, sessions = 10, 12
	dbs := replicas(t, server.Database(t), 2)
	for range rounds {
		ids := make([]tree.SessionID, sessions)
		for i := range ids {
			ids[i] = newSession()
		}
		var answers [2][sessions]tree.Answer
		var wg sync.WaitGroup
		for r, db := range dbs {
			for i := range ids {
				if r == 1 {
					i = sessions - 1 - i
				}
				wg.Go(func() {
					var err error
					answers[r][i], err = db.UpdateOnce(t.Context(), ids[i], store.Key{Key: "k"}, open(ids[i]))
					if err != nil {
						t.Errorf("replica %d: %v", r, err)
					}
				})
			}
		}
		wg.Wait()
		if answers[0] != answers[1] {
			t.Fatalf("one was answered\n%+v, the other\n%+v", answers[0], answers[1])
		}
		for _, id := range ids {
			checkLog(t, dbs[0], id)
		}
	}
}

// databaseClock: without a clock of its own, a store takes the server's time.
func databaseClock(t *testing.T, server *pgtest.Server) {
	url := server.Database(t)
	db := replicas(t, url, 1)[0]
	conn := connect(t, url)
	now := func() time.Time {
		var now time.Time
		if err := conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	before, id := now(), newSession()
	if _, err := db.Update(t.Context(), id, open(id)); err != nil {
		t.Fatal(err)
	}
	after := now()
	s, err := db.Session(t.Context(), "acme", id)
	if err != nil || s.CreatedAt.Before(before) || s.CreatedAt.After(after) {
		t.Errorf("a session was made between %s and %s: %+v, %v", before, after, s, err)
	}
	if _, err := db.Heartbeat(t.Context(), "replica-0", 0, time.Minute); err != nil {
		t.Error(err)
	}
	if lost, err := db.LostAttempts(t.Context(), time.Minute); err != nil || len(lost) > 0 {
		t.Errorf("lost are %v, %v", lost, err)
	}
	if work, err := db.Work(t.Context()); err != nil || work.Waits < 0 || work.Waits > now().Sub(before) {
		t.Errorf("something has waited for %s, and the session is there for %s (%v)", work.Waits, now().Sub(before), err)
	}
	if due, err := db.DueTimers(t.Context(), 10); err != nil || len(due) > 0 {
		t.Errorf("due are %v, %v", due, err)
	}
}

// culprit: what the server refuses of one command does not disturb those that
// queue with it.
func culprit(t *testing.T, server *pgtest.Server) {
	db, err := store.Open(t.Context(), store.Config{Database: server.Database(t), Committers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var queued []*store.Pending
	for n := range 5 {
		id := newSession()
		cmd := open(id)
		if n == 2 {
			cmd.Tenant = "nul\x00"
		}
		p, err := db.Submit(t.Context(), id, cmd)
		if err != nil {
			t.Fatal(err)
		}
		queued = append(queued, p)
	}
	commits(t, db)
	for n, p := range queued {
		if _, err := p.Wait(t.Context()); (err == nil) != (n != 2) {
			t.Errorf("command %d was answered %v", n, err)
		}
	}
}

// beatsAlone: a replica says that it is alive while its other steps wait for one that was frozen
// while it picked.
func beatsAlone(t *testing.T, server *pgtest.Server) {
	url := server.Database(t)
	db := replicas(t, url, 1)[0]
	waiting(t, db)
	frozen := connect(t, url)
	tx, err := frozen.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile("sql/postgres/ready_lock.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), string(lock)); err != nil {
		t.Fatal(err)
	}
	var held sync.WaitGroup
	held.Go(func() {
		if ready, err := db.PickReady(t.Context(), 10, time.Hour); err != nil || len(ready) != 1 {
			t.Errorf("picked were %d runs, %v", len(ready), err)
		}
	})
	for waits := false; !waits; {
		const look = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
		if err := tx.QueryRow(t.Context(), look).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Heartbeat(t.Context(), "replica-0", 0, time.Minute); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	held.Wait()
}

// oldBatches: a beat forgets the batches that nobody can be in doubt about.
func oldBatches(t *testing.T, server *pgtest.Server) {
	url := server.Database(t)
	db := replicas(t, url, 1)[0]
	conn := connect(t, url)
	count := func() (n int) {
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM batches").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	beat := func() {
		if _, err := db.Heartbeat(t.Context(), "replica-0", 0, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	beat()
	before := count()
	beat()
	if n := count(); n != before+1 {
		t.Errorf("there are %d batches, not %d", n, before+1)
	}
	// As they would be an hour later.
	const age = `UPDATE batches SET at = at - 3600000001, id = substring(int8send((at - 3600000001) / 1000 - 1) FROM 3) || substring(id FROM 7)`
	if _, err := conn.Exec(t.Context(), age); err != nil {
		t.Fatal(err)
	}
	beat()
	if n := count(); n != 1 {
		t.Errorf("there are %d batches, not only the last", n)
	}
}

// awaitWaiting waits until somebody waits for a lock in the database of a connection.
func awaitWaiting(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	const look = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
	for waits := false; !waits; {
		if err := conn.QueryRow(t.Context(), look).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// replicasOrder: sub-agents are listed in the order in which they were spawned, by whichever replica
// and whatever its clock.
func replicasOrder(t *testing.T, server *pgtest.Server) {
	url, start := server.Database(t), time.UnixMicro(1_800_000_000_123_456)
	var dbs []*store.Store
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		dbs = append(dbs, running(t, store.Config{Database: url, Clock: func() time.Time { return start.Add(ahead) }}))
	}
	id := newSession()
	if _, err := dbs[0].Update(t.Context(), id, open(id)); err != nil {
		t.Fatal(err)
	}
	const spawned = 3 * 10
	for n := range spawned {
		child := spawn("go")
		child.Child.Description = fmt.Sprint(1 + n)
		if _, err := dbs[n%len(dbs)].Update(t.Context(), id, child); err != nil {
			t.Fatal(err)
		}
	}
	page, err := dbs[0].Tasks(t.Context(), id, tree.TaskID{}, "", 2*spawned)
	if err != nil || len(page.Rows) != 1+spawned {
		t.Fatalf("the session has %d tasks, %v", len(page.Rows), err)
	}
	for n, task := range page.Rows {
		if n > 0 && task.Description != fmt.Sprint(n) {
			t.Errorf("number %d of the list was spawned as number %s", n, task.Description)
		}
		sec, nsec := uuid.UUID(task.ID).Time().UnixTime()
		if made := time.Unix(sec, nsec).UnixMilli(); made != task.CreatedAt.UnixMilli() {
			t.Errorf("the id of number %d says %d, but it was spawned at %d", n, made, task.CreatedAt.UnixMilli())
		}
	}
}
