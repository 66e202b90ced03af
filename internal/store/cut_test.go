package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// proxy stands between a store and its server, and cuts a connection at a moment
// that the test has chosen.
type proxy struct {
	t      *testing.T
	listen net.Listener
	server string
	open   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	cut   *cut // nil: none is due
}

// cut says which connection is cut: that which carries some bytes.
type cut struct {
	asked, answered []byte        // one of both
	forward         bool          // the bytes arrive, but what follows does not
	deaf            bool          // nobody can connect afterwards
	done            chan struct{} // closed when it is cut
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: l, server: server, conns: map[net.Conn]bool{}}
	p.open.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.open.Wait()
	})
	return p
}

// database gives a database's URL by way of the proxy.
func (p *proxy) database(url string) string {
	return strings.Replace(url, p.server, p.listen.Addr().String(), 1)
}

func (p *proxy) arm(c cut) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.done = make(chan struct{})
	p.cut = &c
	return p.cut
}

func (p *proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.open.Go(func() { p.carry(client, server, func(c *cut) []byte { return c.asked }) })
		p.open.Go(func() { p.carry(server, client, func(c *cut) []byte { return c.answered }) })
	}
}

// carry forwards one direction until it ends or is cut.
func (p *proxy) carry(from, to net.Conn, mark func(*cut) []byte) {
	var seen []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			to.Close()
			from.Close()
			return
		}
		if bytes.HasPrefix(buf[:n], cancelRequest) {
			to.Close()
			from.Close()
			return
		}
		seen = append(seen[max(0, len(seen)-64):], buf[:n]...)
		due := p.due(seen, mark)
		if due == nil || due.forward {
			if _, err := to.Write(buf[:n]); err != nil {
				return // whoever closed it has closed what there is to close
			}
		}
		if due != nil {
			if due.deaf {
				p.listen.Close()
			}
			from.Close()
			if !due.forward {
				to.Close() // else it would lose what it has not read yet
			}
			close(due.done)
			return
		}
	}
}

// due gives the cut that the bytes are the occasion for.
func (p *proxy) due(seen []byte, mark func(*cut) []byte) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == nil || len(mark(p.cut)) == 0 {
		clear(seen) // what comes later must not be taken for it
		return nil
	}
	if !bytes.Contains(seen, mark(p.cut)) {
		return nil
	}
	due := p.cut
	p.cut = nil
	return due
}

const marked = "a prompt that is easily recognised"

var committed = []byte("COMMIT\x00") // as the server answers

// cancelRequest begins what a client sends on another connection when it has lost
// one. The proxy loses that too, so that the server goes on with what it was asked.
var cancelRequest = []byte{0, 0, 0, 16, 4, 210, 22, 46}

// TestCut: whoever loses the connection while a transaction is committed is told
// what became of it.
func TestCut(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for name, test := range map[string]struct {
		cut     cut
		unknown bool
	}{
		"BeforeCommit":    {cut: cut{asked: []byte(marked)}},
		"AfterCommit":     {cut: cut{answered: committed}},
		"WhileCommitting": {cut: cut{asked: []byte(marked), forward: true}},
		"Deaf":            {cut: cut{answered: committed, deaf: true}, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := server.Database(t)
			direct := replicas(t, url, 1)[0]
			p := newProxy(t, server.Addr())
			db := replicas(t, p.database(url), 1)[0]
			id := newSession()
			if _, err := db.Update(t.Context(), id, open(id)); err != nil {
				t.Fatal(err)
			}
			c := p.arm(test.cut)
			answer, err := db.Update(t.Context(), id, spawn(marked))
			<-c.done
			tasks, treeErr := direct.Tree(t.Context(), id)
			if treeErr != nil || len(tasks) != 2 {
				t.Fatalf("there are %d tasks, not a root with a child (%v)", len(tasks), treeErr)
			}
			checkLog(t, direct, id)
			if test.unknown {
				if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "unknown") {
					t.Errorf("who can't know was answered %v", err)
				}
				return
			}
			if spawned, ok := answer.(tree.Spawned); err != nil || !ok || spawned.Task != tasks[1].ID {
				t.Errorf("answered was %+v, %v; stored is %s", answer, err, tasks[1].ID)
			}
		})
	}
}

// TestCutAhead: of a transaction that writes many tasks, a part is sent ahead. Whatever of it has
// arrived when the connection is lost, all of it is stored once.
func TestCutAhead(t *testing.T) {
	t.Parallel()
	const children = 250
	server := pgtest.Start(t)
	for name, cut := range map[string]cut{
		"BeforeTasks":   {asked: []byte("told to people")},
		"TasksAnswered": {answered: fmt.Appendf(nil, "INSERT 0 %d\x00", children)},
		"BeforeRest":    {asked: []byte(marked)},
		"AfterCommit":   {answered: committed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, server.Addr())
			a := newAttempt(t, p.database(server.Database(t)))
			a.do(t, tree.AppendAnswer{From: a.next(), Message: asks(children)})
			spawns := tree.SpawnCalls{From: a.next()}
			for block := range children {
				child := spawn(marked).Child
				child.Description = "told to people"
				spawns.Children = append(spawns.Children, tree.CallChild{Block: block, Child: child})
			}
			c := p.arm(cut)
			a.do(t, spawns)
			<-c.done
			tasks, err := a.db.Tree(t.Context(), a.session)
			if err != nil || len(tasks) != 1+children {
				t.Errorf("there are %d tasks, not a root with %d children (%v)", len(tasks), children, err)
			}
			if first, err := a.db.Transcript(t.Context(), a.session, tasks[1].ID, 0, 0); err != nil || len(first) != 1 {
				t.Errorf("a child has %d messages, not its prompt (%v)", len(first), err)
			}
			checkLog(t, a.db, a.session)
		})
	}
}

// TestCutHeartbeat: who has not heard what a heartbeat has found is not told that nobody is there.
func TestCutHeartbeat(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	p := newProxy(t, server.Addr())
	db := replicas(t, p.database(server.Database(t)), 1)[0]
	if _, err := db.Heartbeat(t.Context(), "one", 4, time.Minute); err != nil { // which makes the connection
		t.Fatal(err)
	}
	c := p.arm(cut{answered: committed})
	there, err := db.Heartbeat(t.Context(), "one", 4, time.Minute)
	<-c.done
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("its answer is %+v, %v", there, err)
	}
	if there, err := db.Heartbeat(t.Context(), "one", 4, time.Minute); err != nil || there.Replicas != 1 || there.Slots != 4 {
		t.Errorf("the next one's is %+v, %v", there, err)
	}
}

// TestCutInDoubt: a transaction that is still being carried out when its
// connection is lost is waited for.
func TestCutInDoubt(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.Database(t)
	p := newProxy(t, server.Addr())
	db := replicas(t, p.database(url), 1)[0]
	id := newSession()
	if _, err := db.Update(t.Context(), id, open(id)); err != nil {
		t.Fatal(err)
	}
	// So that the connection has its statements, and waits for nothing but the table.
	if _, err := db.Update(t.Context(), id, spawn("work")); err != nil {
		t.Fatal(err)
	}
	holder, observer := connect(t, url), connect(t, url)
	exec := func(statement string) {
		t.Helper()
		if _, err := holder.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func(n int) {
		t.Helper()
		for found := -1; found != n; {
			err := observer.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&found)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	exec("BEGIN")
	exec("LOCK TABLE runs, messages, events IN EXCLUSIVE MODE")
	c := p.arm(cut{asked: []byte(marked), forward: true})
	// With a key it takes two round trips: it has begun when it is cut.
	answered := make(chan error, 1)
	go func() {
		_, err := db.UpdateOnce(t.Context(), id, store.Key{Key: "once"}, spawn(marked))
		answered <- err
	}()
	<-c.done
	waiting(2) // the transaction for the table, and who asks about it for the transaction
	exec("COMMIT")
	if err := <-answered; err != nil {
		t.Errorf("answered was %v", err)
	}
	if tasks, err := db.Tree(t.Context(), id); err != nil || len(tasks) != 3 {
		t.Errorf("there are %d tasks, not a root with two children (%v)", len(tasks), err)
	}
	checkLog(t, db, id)
}

// TestCutAgents: the answer to a commit is lost, and with it the agents that were asked for. A
// run that is claimed so is not told that its tenant has none.
func TestCutAgents(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	p := newProxy(t, server.Addr())
	db := replicas(t, p.database(server.Database(t)), 1)[0]
	if err := db.PutAgent(t.Context(), "acme", store.AgentVersion{Name: "explore", Version: "v1"}, []byte("body")); err != nil {
		t.Fatal(err)
	}
	for round, cutting := range []bool{false, true} {
		id := newSession()
		if _, err := db.Update(t.Context(), id, open(id)); err != nil {
			t.Fatal(err)
		}
		answer, err := db.Update(t.Context(), id, spawn(marked))
		if err != nil {
			t.Fatal(err)
		}
		done := make(<-chan struct{})
		if cutting {
			done = p.arm(cut{answered: committed}).done
		}
		claim := tree.Claim{Task: answer.(tree.Spawned).Task, Token: tree.Token{Epoch: 1, Nonce: uint64(round + 1)}, Worker: "w"}
		pending, err := db.Submit(t.Context(), id, claim)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pending.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if cutting {
			<-done
		}
		seen, err := db.ConversationFromCache(t.Context(), pending.CachedConversation())
		if err != nil {
			t.Fatal(err)
		}
		if seen != nil && len(seen.Agents) != 1 || seen == nil && !cutting {
			t.Errorf("the connection was cut: %t; at hand is %+v", cutting, seen)
		}
	}
}
