package store_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// attempt is a run that has a worker, which says one thing after another.
type attempt struct {
	db      *store.Store
	session tree.SessionID
	from    tree.From
}

// newAttempt opens a session in a database, and claims its root.
func newAttempt(b testing.TB, database string) *attempt {
	b.Helper()
	return beginAttempt(b, running(b, store.Config{Database: database, Replica: "bench"}))
}

// beginAttempt opens a session and claims its root.
func beginAttempt(b testing.TB, db *store.Store) *attempt {
	b.Helper()
	agent := &tree.Agent{Name: "general", Version: "1", Mode: tree.ModeBoth, MaxIterations: 1 << 30}
	limits := tree.DefaultLimits()
	limits.Width, limits.Total, limits.Running = 1<<30, 1<<30, 1<<30
	a := &attempt{db: db, session: newSession()}
	create := tree.CreateSession{
		ID: a.session, Tenant: "bench", Agent: agent, Limits: limits,
		Message: []tree.Block{tree.Text{Text: "Find out where the setting is read."}},
	}
	root := a.do(b, create).(tree.Created).Root
	token := tree.Token{Epoch: 1, Nonce: 1}
	a.from = tree.From{Task: root, Token: token, Attach: 1}
	a.do(b, tree.Claim{Task: root, Token: token, Worker: "w"})
	return a
}

func (a *attempt) do(b testing.TB, c tree.Command) tree.Answer {
	b.Helper()
	answer, err := a.db.Update(b.Context(), a.session, c)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

// next is who the next request is from.
func (a *attempt) next() tree.From {
	a.from.Seq++
	return a.from
}

// asks is an answer with calls.
func asks(calls int) tree.Message {
	m := tree.Message{Model: "scripted", Stop: tree.StopToolUse, Usage: tree.Usage{Input: 900, Output: 20}}
	for n := range calls {
		m.Blocks = append(m.Blocks, tree.ToolUse{ProviderID: fmt.Sprint("call_", n), Name: "task", Input: []byte(`{"prompt":"look"}`)})
	}
	return m
}

// BenchmarkCommit is one command alone, from the request to the acknowledgement: a
// transaction of its own, as durable as it is by default.
func BenchmarkCommit(b *testing.B) {
	dialects(b, "spawn", func(b *testing.B, database string) {
		a := newAttempt(b, database)
		b.ReportAllocs()
		for b.Loop() {
			a.do(b, spawn("look"))
		}
	})
	dialects(b, "append_and_close", func(b *testing.B, database string) {
		a := newAttempt(b, database)
		b.ReportAllocs()
		for b.Loop() {
			a.do(b, tree.AppendAnswer{From: a.next(), Message: asks(1)})
			a.do(b, tree.CloseCall{From: a.next(), Block: 0, Text: "It is read in config.go."})
		}
	})
	dialects(b, "append_and_close_5_KB", func(b *testing.B, database string) {
		file, err := os.ReadFile("postgres.go")
		if err != nil {
			b.Fatal(err)
		}
		a := newAttempt(b, database)
		if _, err := a.db.Heartbeat(b.Context(), "bench", 1, time.Minute); err != nil { // so that it is packed
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			a.do(b, tree.AppendAnswer{From: a.next(), Message: asks(1)})
			a.do(b, tree.CloseCall{From: a.next(), Block: 0, Text: string(file[:5<<10])})
		}
	})
}

// BenchmarkConversation is the read of a claim: the transcript of a parent whose
// children have answered, all at once or one after another.
func BenchmarkConversation(b *testing.B) {
	for _, shape := range []struct{ messages, calls int }{{1, 1}, {1, 100}, {100, 1}} {
		dialects(b, fmt.Sprintf("%d_times_%d_children", shape.messages, shape.calls), func(b *testing.B, database string) {
			a := newAttempt(b, database)
			for range shape.messages {
				a.haveChildren(b, shape.calls)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := a.read(b.Context(), shape.messages*2+1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func (a *attempt) read(ctx context.Context, messages int) error {
	found, err := a.db.Conversation(ctx, "acme", a.session, a.from.Task)
	if err == nil && len(found.Messages) != messages {
		err = fmt.Errorf("there are %d messages, want %d", len(found.Messages), messages)
	}
	return err
}

// haveChildren has the run spawn children in one answer, and lets them answer.
func (a *attempt) haveChildren(b testing.TB, n int) {
	b.Helper()
	a.do(b, tree.AppendAnswer{From: a.next(), Message: asks(n)})
	a.do(b, tree.SpawnCalls{From: a.next(), Children: lookers(n)})
	a.answerCalls(b, n)
}

// lookers are children, one for each call.
func lookers(n int) (children []tree.CallChild) {
	for block := range n {
		children = append(children, tree.CallChild{Block: block, Child: spawn("look").Child})
	}
	return children
}

// answerCalls lets the children answer whose calls are open.
func (a *attempt) answerCalls(b testing.TB, n int) {
	b.Helper()
	seen, err := a.db.Conversation(b.Context(), "acme", a.session, a.from.Task)
	if err != nil || len(seen.Open) != n {
		b.Fatalf("what is open is not %d calls: %+v, %v", n, seen, err)
	}
	for _, c := range seen.Open {
		token := tree.Token{Epoch: 1, Nonce: 2}
		a.do(b, tree.Claim{Task: c.Child.Task, Token: token, Worker: "w"})
		a.do(b, tree.End{
			From:   tree.From{Task: c.Child.Task, Token: token, Attach: 1, Seq: 1},
			Answer: &tree.Message{Blocks: []tree.Block{tree.Text{Text: "It is read in config.go."}}, Model: "scripted", Stop: tree.StopEndTurn},
		})
	}
}
