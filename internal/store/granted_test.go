package store_test

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// claimsInOrder: a claim that waits for its session holds no ready run of it meanwhile, which whoever has
// the session may want to write.
func claimsInOrder(t *testing.T, server *pgtest.Server) {
	url := server.Database(t)
	db, err := store.Open(t.Context(), store.Config{Database: url, Replica: "replica-0", Committers: 1, Caps: store.Caps{Tenant: 5}})
	if err != nil {
		t.Fatal(err)
	}
	commits(t, db)
	if _, err := db.Heartbeat(t.Context(), "replica-0", 5, time.Minute); err != nil {
		t.Fatal(err)
	}
	id, _ := waiting(t, db)
	ready, err := db.PickReady(t.Context(), 1, time.Hour)
	if err != nil || len(ready) != 1 {
		t.Fatalf("announced are %v, %v", ready, err)
	}
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM sessions WHERE id = $1 FOR UPDATE", id[:]); err != nil {
		t.Fatal(err)
	}
	claim := tree.Claim{Task: ready[0].Task, Token: tree.Token{Epoch: ready[0].Epoch, Nonce: 1}, Worker: "w"}
	claimed, err := db.Submit(t.Context(), id, claim)
	if err != nil {
		t.Fatal(err)
	}
	awaitWaiting(t, connect(t, url))
	if _, err := tx.Exec(t.Context(), "SELECT FROM ready WHERE session = $1 FOR UPDATE NOWAIT", id[:]); err != nil {
		t.Errorf("the claim holds what is ready: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := claimed.Wait(t.Context()); err != nil {
		t.Errorf("the claim: %v", err)
	}
}
