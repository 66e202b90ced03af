package store_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// wide is how many runs the fan-outs of these tests have.
const wide = 40

// announced is a store that picks from its mirror, under the id of a replica.
type announced struct {
	*store.Store
	t       *testing.T
	replica string
}

// openAnnounced opens a database whose only replica this is.
func openAnnounced(t *testing.T, c store.Config, replica string) *announced {
	t.Helper()
	c.Replica, c.Committers = replica, 1
	db := &announced{running(t, c), t, replica}
	db.beats(1)
	if none := db.picks(); len(none) > 0 {
		t.Fatalf("picked are %v", none)
	}
	return db
}

// beats sends a heartbeat, and expects so many live replicas.
func (db *announced) beats(replicas int) {
	db.t.Helper()
	there, err := db.Heartbeat(db.t.Context(), db.replica, 1, time.Hour)
	if err != nil || there.Replicas != replicas {
		db.t.Fatalf("there are %+v, %v", there, err)
	}
}

func (db *announced) picks() []store.Ready {
	db.t.Helper()
	ready, err := db.PickReady(db.t.Context(), 100*wide, time.Hour)
	if err != nil {
		db.t.Fatal(err)
	}
	return ready
}

// fansOut makes so many runs of a session ready in one transaction, and gives them in their order.
func (db *announced) fansOut(id tree.SessionID, runs int) (tasks []tree.TaskID) {
	db.t.Helper()
	commands := make([]*store.Pending, runs)
	for i := range commands {
		commands[i] = db.Prepare(id, spawn("work"), nil)
	}
	if err := db.Queue(db.t.Context(), commands...); err != nil {
		db.t.Fatal(err)
	}
	for _, c := range commands {
		spawned, err := c.Wait(db.t.Context())
		if err != nil {
			db.t.Fatal(err)
		}
		tasks = append(tasks, spawned.(tree.Spawned).Task)
	}
	return tasks
}

// claims gives runs to a worker, and expects them to be free or not.
func (db *announced) claims(id tree.SessionID, free bool, tasks ...tree.TaskID) {
	db.t.Helper()
	for _, task := range tasks {
		_, err := db.Update(db.t.Context(), id, tree.Claim{Task: task, Token: tree.Token{Epoch: 1, Nonce: rand.Uint64()}, Worker: "w"})
		if (err == nil) != free {
			db.t.Errorf("the claim of %s: %v", task, err)
		}
	}
}

// expects compares how many of a session's runs wait, how many of them have rows, and how many
// sessions have runs without rows.
func (db *announced) expects(id tree.SessionID, waiting, rows, marked int) {
	db.t.Helper()
	haveRows, haveMark, err := store.ReadyRows(db.t.Context(), db.Store)
	if err != nil || haveRows != rows || haveMark != marked {
		db.t.Errorf("%d rows, %d sessions with runs without rows, %v; want %d and %d", haveRows, haveMark, err, rows, marked)
	}
	all, err := db.Rows(db.t.Context(), id)
	if err != nil {
		db.t.Fatal(err)
	}
	for _, v := range tree.Diagnose(all) {
		db.t.Errorf("%+v", v)
	}
	work, err := db.Work(db.t.Context())
	if err != nil || work.Ready+work.Held != waiting || len(all.Ready) != waiting {
		db.t.Errorf("%d runs wait by the session's rows, by the counts %+v, %v; want %d", len(all.Ready), work, err, waiting)
	}
}

// opens opens a session whose runs wait for nothing but workers.
func (db *announced) opens() tree.SessionID {
	db.t.Helper()
	cmd := open(newSession())
	cmd.Limits.Running = 10 * wide
	if _, err := db.Update(db.t.Context(), cmd.ID, cmd); err != nil {
		db.t.Fatal(err)
	}
	return cmd.ID
}

func tasksOf(ready []store.Ready) (tasks []tree.TaskID) {
	for _, r := range ready {
		tasks = append(tasks, r.Task)
	}
	return tasks
}

// TestUnlisted: runs of a wide fan-out have no rows while only the mirror is read, and are picked
// like others, also by the next process.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for name, c := range map[string]store.Config{"SQLite": fresh(t), "PostgreSQL": {Database: server.Database(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var id tree.SessionID
			var tasks []tree.TaskID
			t.Run("first process", func(t *testing.T) {
				db := openAnnounced(t, c, "replica-1")
				few := db.opens()
				db.fansOut(few, 3)
				db.expects(few, 3, 3, 0)
				db.claims(few, true, tasksOf(db.picks())...)
				db.expects(few, 0, 0, 0)

				id = db.opens()
				tasks = db.fansOut(id, wide)
				db.expects(id, wide, 0, 1)
				if got := tasksOf(db.picks()); !slices.Equal(got, tasks) {
					t.Errorf("picked are %v, not %v", got, tasks)
				}
				db.claims(id, true, tasks[:3]...)
				db.claims(id, false, tasks[:3]...)
				db.expects(id, wide-3, 0, 1)
			})
			db := &announced{running(t, store.Config{Database: c.Database, Replica: "replica-1", Committers: 1}), t, "replica-1"}
			db.expects(id, wide-3, 0, 1)
			db.beats(1)
			if got := tasksOf(db.picks()); !slices.Equal(got, tasks[3:]) {
				t.Errorf("picked are %v, not %v", got, tasks[3:])
			}
			db.expects(id, wide-3, wide-3, 0)
			db.claims(id, true, tasks[3:]...)
			db.expects(id, 0, 0, 0)
		})
	}
}

// TestUnlistedEnds: once no run without a row is left, the session is not marked any more.
func TestUnlistedEnds(t *testing.T) {
	t.Parallel()
	db := openAnnounced(t, fresh(t), "replica-1")
	id := db.opens()
	tasks := db.fansOut(id, wide)
	db.claims(id, true, tasks...)
	db.expects(id, 0, 0, 0)
	db.fansOut(id, wide)
	db.expects(id, wide, 0, 1)
	if _, err := db.Update(t.Context(), id, tree.CloseSession{}); err != nil {
		t.Fatal(err)
	}
	db.expects(id, 0, 0, 0)
}

// TestUnlistedBesideOthers: another replica that comes finds all runs, and a replica that is not
// the only one any more leaves no row out.
func TestUnlistedBesideOthers(t *testing.T) {
	t.Parallel()
	c := store.Config{Database: pgtest.Start(t).Database(t)}
	first := openAnnounced(t, c, "replica-1")
	id := first.opens()
	tasks := first.fansOut(id, wide)
	first.expects(id, wide, 0, 1)

	second := &announced{running(t, c), t, "replica-2"}
	second.beats(2)
	second.claims(id, true, tasks[0]) // a hint of the first
	first.claims(id, false, tasks[0])
	first.claims(id, true, tasks[1])
	second.expects(id, wide-2, wide-2, 0)

	more := first.fansOut(id, wide) // it has not heard of the second yet
	first.expects(id, 2*wide-2, wide-2, 1)
	want := append(slices.Clone(tasks[2:]), more...)
	if got := tasksOf(second.picks()); !slices.Equal(got, want) {
		t.Errorf("picked are %v, not %v", got, want)
	}
	second.expects(id, 2*wide-2, 2*wide-2, 0)
	first.claims(id, true, more[0])
	second.claims(id, false, more[0])
	second.expects(id, 2*wide-3, 2*wide-3, 0)

	first.beats(2)
	first.fansOut(id, wide)
	first.expects(id, 3*wide-3, 3*wide-3, 0)
}

// TestUnlistedReleased: a run without a row whose announcement is taken back is picked again, from
// the table or from a mirror that was read anew. Its row is deleted when it is claimed.
func TestUnlistedReleased(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Duration{"table": 0, "mirror": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fresh(t)
			now := time.Now()
			c.Clock = func() time.Time { return now }
			db := openAnnounced(t, c, "replica-1")
			id := db.opens()
			tasks := db.fansOut(id, wide)
			db.picks()
			if err := db.ReleaseReady(t.Context(), id, tasks[0], 1); err != nil {
				t.Fatal(err)
			}
			db.expects(id, wide, 0, 1)
			now = now.Add(later)
			if got := tasksOf(db.picks()); !slices.Contains(got, tasks[0]) {
				t.Errorf("picked are %v, not also %v", got, tasks[0])
			}
			db.expects(id, wide, wide, 0)
			db.claims(id, true, tasks...)
			db.expects(id, 0, 0, 0)
		})
	}
}

// TestUnlistedInManySessions: the runs of all sessions are found, also of more than are listed at
// once.
func TestUnlistedInManySessions(t *testing.T) {
	const sessions, runs = store.ListAtOnce + 20, 4
	c := fresh(t)
	t.Run("first process", func(t *testing.T) {
		db := openAnnounced(t, c, "replica-1")
		for range sessions {
			db.fansOut(db.opens(), runs)
		}
		if rows, marked, err := store.ReadyRows(t.Context(), db.Store); rows != 0 || marked != sessions || err != nil {
			t.Fatalf("there are %d rows, and %d sessions with runs without rows, %v", rows, marked, err)
		}
	})
	db := &announced{running(t, c), t, "replica-1"}
	db.beats(1)
	if n := len(db.picks()); n != sessions*runs {
		t.Errorf("%d runs are picked, not %d", n, sessions*runs)
	}
	if rows, marked, err := store.ReadyRows(t.Context(), db.Store); rows != sessions*runs || marked != 0 || err != nil {
		t.Errorf("there are %d rows, and %d sessions with runs without rows, %v", rows, marked, err)
	}
}
