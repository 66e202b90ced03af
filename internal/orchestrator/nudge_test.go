package orchestrator

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestANudgeBeforeAClaim: a nudge about the end of an attempt arrives while the claim of the next
// attempt is not stored yet. It revokes the old attempt, and not the new one.
func TestANudgeBeforeAClaim(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), store.Config{Database: filepath.Join(t.TempDir(), "a.db"), Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- db.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	id := tree.SessionID(uuid.Must(uuid.NewV7()))
	update := func(cmd tree.Command) tree.Answer {
		t.Helper()
		answer, err := db.Update(t.Context(), id, cmd)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	agent := &tree.Agent{Name: "scout", Version: "v", Mode: tree.ModeBoth, MaxIterations: 5}
	update(tree.CreateSession{ID: id, Tenant: "acme", Agent: agent, Limits: tree.DefaultLimits()})
	task := update(tree.SpawnTask{Child: tree.Child{Agent: agent, AgentName: agent.Name, Prompt: "work"}}).(tree.Spawned).Task
	s := &Service{Config: Config{Store: db, Logger: slog.New(slog.DiscardHandler)}, leases: newLeases()}
	attempt := func(epoch int64) *lease {
		granted := update(tree.Claim{Task: task, Token: tree.Token{Epoch: epoch, Nonce: 7}, Worker: "w"}).(*tree.Claimed)
		return newLease(&granted.Task, granted.Tenant, workerInfo{id: "w"})
	}
	first := s.leases.expect(task, 1)
	old := attempt(1)
	s.leases.add(old, first, make(chan struct{}, 1))
	s.leases.settle(first)
	update(tree.Redeliver{Task: task, Epoch: 1, Attach: 1})
	second := s.leases.expect(task, 2)
	s.recheckLease(t.Context(), dispatch.Nudge{Session: id, Task: task})
	if !s.leases.isRevoked(old) {
		t.Error("the attempt that has ended is held as before")
	}
	next := attempt(2)
	s.leases.add(next, second, make(chan struct{}, 1))
	if s.leases.isRevoked(next) {
		t.Error("the attempt that nobody has ended is told to be ended")
	}
}
