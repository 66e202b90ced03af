package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// replicasHold: what a replica holds of a session is not gone by once another one has
// changed it, neither for what it carries out nor for what it refuses.
func replicasHold(t *testing.T, server *pgtest.Server) {
	dbs := replicas(t, server.Database(t), 2)
	id, root := waiting(t, dbs[0])
	for epoch := range int64(20) {
		token := tree.Token{Epoch: epoch + 1, Nonce: 7}
		mine, other := dbs[epoch%2], dbs[1-epoch%2]
		if _, err := mine.Update(t.Context(), id, tree.Claim{Task: root, Token: token, Worker: "w"}); err != nil {
			t.Fatalf("a claim of epoch %d, which the other replica has offered: %v", token.Epoch, err)
		}
		if _, err := mine.Update(t.Context(), id, tree.Claim{Task: root, Token: tree.Token{Epoch: token.Epoch, Nonce: 8}, Worker: "w"}); err == nil {
			t.Fatal("a run was given to two workers")
		}
		if _, err := other.Update(t.Context(), id, tree.Redeliver{Task: root, Epoch: token.Epoch, Attach: 1}); err != nil {
			t.Fatal(err)
		}
	}
	checkLog(t, dbs[0], id)
}

// waiting opens a session whose root waits for a worker.
func waiting(t *testing.T, db *store.Store) (tree.SessionID, tree.TaskID) {
	t.Helper()
	id := newSession()
	create := open(id)
	create.Message = []tree.Block{tree.Text{Text: "begin"}}
	created, err := db.Update(t.Context(), id, create)
	if err != nil {
		t.Fatal(err)
	}
	return id, created.(tree.Created).Root
}

// strayRow: what would write a new row is not held up by one that should not be there.
func strayRow(t *testing.T, server *pgtest.Server) {
	url := server.Database(t)
	db := replicas(t, url, 1)[0]
	id, root := waiting(t, db)
	conn := connect(t, url)
	stray := "INSERT INTO attempts (session, task, epoch, replica, worker, at) SELECT session, id, 0, 'gone', 'gone', 0 FROM tasks"
	if _, err := conn.Exec(t.Context(), stray); err != nil {
		t.Fatal(err)
	}
	claim := tree.Claim{Task: root, Token: tree.Token{Epoch: 1, Nonce: 7}, Worker: "w"}
	if _, err := db.Update(t.Context(), id, claim); err != nil {
		t.Fatal(err)
	}
	var worker string
	if err := conn.QueryRow(t.Context(), "SELECT worker FROM attempts").Scan(&worker); err != nil || worker != claim.Worker {
		t.Errorf("the attempt is %q's, %v", worker, err)
	}
}

// replicasRepeat: what a request with a key is decided upon is not gone by either.
func replicasRepeat(t *testing.T, server *pgtest.Server) {
	dbs := replicas(t, server.Database(t), 2)
	id := newSession()
	if _, err := dbs[0].Update(t.Context(), id, open(id)); err != nil {
		t.Fatal(err)
	}
	const children = 20
	for i := range children {
		key := store.Key{Key: fmt.Sprint("child ", i)}
		for range 2 { // the second is answered with the first's answer
			if _, err := dbs[i%2].UpdateOnce(t.Context(), id, key, spawn("work")); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkLog(t, dbs[0], id)
	if tasks, err := dbs[0].Tree(t.Context(), id); err != nil || len(tasks) != 1+children {
		t.Errorf("there are %d tasks, %v", len(tasks), err)
	}
}

// replicasExist: a session that another replica has opened is not opened again, and does
// not disturb those that are opened beside it.
func replicasExist(t *testing.T, server *pgtest.Server) {
	const rounds, others = 10, 4
	dbs := replicas(t, server.Database(t), 2)
	for range rounds {
		id := newSession()
		cmd := open(id)
		cmd.Title = "the first"
		if _, _, err := dbs[0].Create(t.Context(), nil, cmd, nil); err != nil {
			t.Fatal(err)
		}
		cmd.Title = "the second"
		queued := map[tree.SessionID]*store.Pending{}
		for i := range others + 1 {
			each := open(newSession())
			if i == others/2 {
				each = cmd
			}
			p, err := dbs[1].Submit(t.Context(), each.ID, each)
			if err != nil {
				t.Fatal(err)
			}
			queued[each.ID] = p
		}
		for opened, p := range queued {
			if _, err := p.Wait(t.Context()); opened == id && !errors.Is(err, tree.ErrSessionExists) || opened != id && err != nil {
				t.Errorf("opening a session, which is there: %t, was answered %v", opened == id, err)
			}
		}
		if s, err := dbs[1].Session(t.Context(), "acme", id); err != nil || s.Title != "the first" {
			t.Errorf("the session is %+v, %v", s, err)
		}
		checkLog(t, dbs[1], id)
	}
}
