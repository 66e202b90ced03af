package store_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// BenchmarkLife is the whole life of a task as the store sees it: it is spawned,
// claimed and answered, by 256 callers at once over 32 sessions. Each step is
// durable before the next is asked for.
func BenchmarkLife(b *testing.B) {
	for _, sessions := range []int{32, 256} {
		dialects(b, fmt.Sprintf("%d_sessions", sessions), func(b *testing.B, database string) {
			benchmarkLife(b, database, sessions)
		})
	}
}

// dialects runs a benchmark on each kind of database.
func dialects(b *testing.B, name string, run func(b *testing.B, database string)) {
	b.Run("sqlite/"+name, func(b *testing.B) { run(b, b.TempDir()+"/bench.db") })
	b.Run("postgres/"+name, func(b *testing.B) { run(b, pgtest.Start(b).Database(b)) })
}

func benchmarkLife(b *testing.B, database string, sessions int) {
	const callers = 256
	db := running(b, store.Config{Database: database, Replica: "bench"})
	agent := &tree.Agent{Name: "general", Version: "1", Mode: tree.ModeBoth, MaxIterations: 10}
	limits := tree.DefaultLimits()
	limits.Width, limits.Total, limits.Running = 1<<30, 1<<30, 1<<30
	ids := make([]tree.SessionID, sessions)
	for i := range ids {
		ids[i][15], ids[i][14] = byte(i), 1
		create := tree.CreateSession{ID: ids[i], Tenant: "bench", Agent: agent, Limits: limits}
		if _, err := db.Update(b.Context(), ids[i], create); err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for caller := range callers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := life(b.Context(), db, ids[caller%sessions], agent, uint64(n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// life spawns a task, claims it, and ends it with an answer.
func life(ctx context.Context, db *store.Store, id tree.SessionID, agent *tree.Agent, nonce uint64) error {
	answer, err := db.Update(ctx, id, tree.SpawnTask{Child: tree.Child{
		Agent: agent, AgentName: agent.Name, Description: "look it up", Prompt: "Find out where the setting is read.",
	}})
	if err != nil {
		return fmt.Errorf("spawning: %w", err)
	}
	task, token := answer.(tree.Spawned).Task, tree.Token{Epoch: 1, Nonce: nonce}
	if _, err := db.Update(ctx, id, tree.Claim{Task: task, Token: token, Worker: "w"}); err != nil {
		return fmt.Errorf("claiming: %w", err)
	}
	_, err = db.Update(ctx, id, tree.End{
		From: tree.From{Task: task, Token: token, Attach: 1, Seq: 1},
		Answer: &tree.Message{
			Blocks: []tree.Block{tree.Text{Text: "It is read in config.go, once, when the process starts."}},
			Model:  "scripted", Stop: tree.StopEndTurn, Usage: tree.Usage{Input: 900, Output: 20},
		},
	})
	if err != nil {
		return fmt.Errorf("ending: %w", err)
	}
	return nil
}

// BenchmarkPickReady is a look at what may be announced while one session has
// 10,000 or 100,000 ready runs and runs all it may, beside another that has one.
func BenchmarkPickReady(b *testing.B) {
	for _, ready := range []int{10_000, 100_000} {
		dialects(b, fmt.Sprint(ready), func(b *testing.B, database string) { benchmarkPickReady(b, database, ready) })
	}
}

func benchmarkPickReady(b *testing.B, database string, ready int) {
	db := running(b, store.Config{Database: database, Replica: "bench", MaxBatch: 1000})
	var flood, other tree.SessionID
	flood[15], other[15] = 1, 2
	limits := tree.DefaultLimits()
	limits.Width, limits.Total = 2*ready, 2*ready
	for id, children := range map[tree.SessionID]int{flood: ready, other: 1} {
		if _, err := db.Update(b.Context(), id, tree.CreateSession{ID: id, Tenant: "bench", Agent: scout, Limits: limits}); err != nil {
			b.Fatal(err)
		}
		var queued []*store.Pending
		for range children {
			p, err := db.Submit(b.Context(), id, spawn("work"))
			if err != nil {
				b.Fatal(err)
			}
			queued = append(queued, p)
		}
		for _, p := range queued {
			if _, err := p.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if taken, err := db.PickReady(b.Context(), 100, time.Hour); err != nil || len(taken) != limits.Running+1 {
		b.Fatalf("taken were %d, %v", len(taken), err)
	}
	for b.Loop() {
		if taken, err := db.PickReady(b.Context(), 100, time.Hour); err != nil || len(taken) > 0 {
			b.Fatalf("taken were %d, %v", len(taken), err)
		}
	}
}
