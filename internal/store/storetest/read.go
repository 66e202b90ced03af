package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// dump is everything that can be read of a session.
func (b *bundle) dump(id tree.SessionID) string {
	b.t.Helper()
	s, err := b.Session(b.t.Context(), "acme", id)
	if err != nil {
		b.t.Fatal(err)
	}
	out := fmt.Sprintf("%+v\n", *s)
	for _, task := range must[[]tree.Task](b.t)(b.Tree(b.t.Context(), id)) {
		out += fmt.Sprintf("%+v\n", task)
		out += fmt.Sprintf("%+v\n", must[[]tree.Message](b.t)(b.Transcript(b.t.Context(), id, task.ID, 0, 0)))
		out += fmt.Sprintf("%+v\n", b.openCalls(id, task.ID))
	}
	events, err := b.Events(b.t.Context(), id, 0, 1<<20)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range events {
		out += e.String() + "\n"
	}
	return out
}

// restart: a restart changes no data, and the database keeps its id.
func restart(t *testing.T, d Dialect) {
	f := newFamily(t, d)
	before, installation := f.dump(f.session), f.Installation()
	f.restart()
	eq(t, "the session after a restart", f.dump(f.session), before)
	eq(t, "the installation", f.Installation(), installation)
	f.must(f.session, tree.Send{Message: say("go on")})
	f.claim(f.session, f.root).answers("gone on")
	f.events(f.session)
	eq(t, "whether another database is another installation", setup(t, d).Installation() == installation, false)
}

// pages: with any page size, the pages have every entry once, in order.
func pages(t *testing.T, d Dialect) {
	b := setup(t, d)
	for n := range 7 {
		b.create(n, "")
		if n%3 == 0 {
			b.clock.advance(time.Second)
		}
	}
	b.spread(9, 5, 1)
	for size := 1; size <= 9; size++ {
		var sessions []tree.Session
		for token := ""; ; {
			page, err := b.Sessions(b.t.Context(), "acme", token, size, nil)
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, page.Rows...)
			if token = page.Next; token == "" {
				break
			}
		}
		eq(t, "the number of sessions", len(sessions), 8)
		for i := range sessions[1:] {
			if newer, older := sessions[i], sessions[i+1]; older.CreatedAt.After(newer.CreatedAt) ||
				older.CreatedAt.Equal(newer.CreatedAt) && bytes.Compare(newer.ID[:], older.ID[:]) <= 0 {
				t.Errorf("session %s of %s comes after %s of %s", older.ID, older.CreatedAt, newer.ID, newer.CreatedAt)
			}
		}
		root := sessions[0].Root
		for parent, want := range map[tree.TaskID]int{{}: 6, root: 5} {
			eq(t, "the number of tasks", len(b.tasks(session(9), parent, size)), want)
		}
	}
	if _, err := b.Sessions(b.t.Context(), "acme", "no token", 1, nil); !errors.Is(err, tree.ErrBadInput) {
		t.Errorf("a foreign page token was answered %v", err)
	}
	if _, err := b.Tasks(b.t.Context(), session(9), tree.TaskID{}, "no token", 1); !errors.Is(err, tree.ErrBadInput) {
		t.Errorf("a foreign page token was answered %v", err)
	}
}

// tasks reads all pages of tasks and checks their order.
func (b *bundle) tasks(id tree.SessionID, parent tree.TaskID, size int) []tree.Task {
	b.t.Helper()
	var all []tree.Task
	for token := ""; ; {
		page, err := b.Tasks(b.t.Context(), id, parent, token, size)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, task := range page.Rows {
			if len(all) > 0 && bytes.Compare(all[len(all)-1].ID[:], task.ID[:]) >= 0 {
				b.t.Errorf("task %s comes after %s", task.ID, all[len(all)-1].ID)
			}
			all = append(all, task)
		}
		if token = page.Next; token == "" {
			return all
		}
	}
}

// tenants: for another tenant a session does not exist, and for another session its tasks do not.
func tenants(t *testing.T, d Dialect) {
	b := setup(t, d)
	root := b.create(1, "hello")
	b.create(2, "")
	if _, err := b.Session(b.t.Context(), "other", session(1)); !errors.Is(err, tree.ErrNoSession) {
		t.Errorf("another tenant's session: %v", err)
	}
	if _, err := b.Session(b.t.Context(), "acme", session(3)); !errors.Is(err, tree.ErrNoSession) {
		t.Errorf("no session: %v", err)
	}
	if found, err := b.Sessions(b.t.Context(), "other", "", 10, nil); err != nil || len(found.Rows) > 0 {
		t.Errorf("another tenant has %+v, %v", found, err)
	}
	if _, err := b.Task(b.t.Context(), session(2), root); !errors.Is(err, tree.ErrNoTask) {
		t.Errorf("another session's task: %v", err)
	}
	s := must[*tree.Session](t)(b.Session(b.t.Context(), "acme", session(1)))
	eq(t, "the metadata", s.Metadata["n"], "1")
	eq(t, "the limits", s.Limits, tree.DefaultLimits())
	eq(t, "the title", s.Title, "hello")
}

// there: a session exists until it is deleted, for any tenant.
func there(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.create(1, "hello")
	b.create(2, "")
	others := create(3)
	others.Tenant = "other"
	b.must(others.ID, others)
	b.must(session(2), tree.DeleteSession{})
	asked := []tree.SessionID{session(3), session(4), session(1), session(2)}
	found := must[[]tree.SessionID](t)(b.ExistingSessions(t.Context(), asked))
	if !slices.Equal(found, []tree.SessionID{session(3), session(1)}) {
		t.Errorf("there are %v", found)
	}
	eq(t, "how many of none are there", len(must[[]tree.SessionID](t)(b.ExistingSessions(t.Context(), nil))), 0)
}

// idle: idleness, the last event and the root are of the same moment.
func idle(t *testing.T, d Dialect) {
	b := setup(t, d)
	if _, _, _, err := b.Idle(b.t.Context(), session(1)); !errors.Is(err, tree.ErrNoSession) {
		t.Errorf("the idleness of no session: %v", err)
	}
	root := b.create(1, "hello")
	check := func(want bool, state tree.State) {
		t.Helper()
		quiet, at, task, err := b.Idle(b.t.Context(), session(1))
		if err != nil {
			t.Fatal(err)
		}
		eq(t, "idleness", quiet, want)
		eq(t, "the root's state", task.State, state)
		eq(t, "the last event", at.NextSeq-1, b.events(session(1)))
	}
	check(false, tree.StatePending)
	w := b.claim(session(1), root)
	check(false, tree.StateRunning)
	w.answers("hi")
	check(true, tree.StateCompleted)
}

// timers: timers are found when they are due, oldest first, until they are deleted.
func timers(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "wait for it")
	w := b.claim(id, root)
	at := w.calls("task", "output", "output")
	work := w.spawns(at, 1, true)
	for i, after := range []time.Duration{2 * time.Minute, time.Minute} {
		b.must(id, tree.AwaitTask{From: w.from(), Block: 2 + i, Target: work, Timeout: after})
	}
	w.parks()
	eq(t, "how many calls are open", len(b.openCalls(id, root)), 2)
	due := func(limit int) (blocks []int) {
		found, err := b.DueTimers(b.t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, timer := range found {
			eq(t, "the timer's session", timer.Session, id)
			blocks = append(blocks, timer.Ref.Block)
		}
		return blocks
	}
	eq(t, "how many are due at once", len(due(10)), 0)
	b.clock.advance(3 * time.Minute)
	if blocks := due(10); !reflect.DeepEqual(blocks, []int{3, 2}) {
		t.Errorf("due are %v", blocks)
	}
	eq(t, "how many are due of at most one", len(due(1)), 1)
	for _, block := range due(10) {
		b.must(id, tree.Expire{Task: root, Ref: tree.CallRef{Message: at, Block: block}})
	}
	eq(t, "how many are due in the end", len(due(10)), 0)
	eq(t, "the root's state", must[*tree.Task](t)(b.Task(b.t.Context(), id, root)).State, tree.StatePending)
}

// attempts: attempts belong to a replica and are lost with it.
func attempts(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "hello")
	w := b.claim(id, root)
	lost := func(want int) {
		t.Helper()
		found, err := b.LostAttempts(b.t.Context(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		eq(t, "how many attempts are lost", len(found), want)
	}
	beat := func(replica string) {
		t.Helper()
		if _, err := b.Heartbeat(b.t.Context(), replica, 4, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	lost(1) // its replica never said that it is there
	beat(replica)
	lost(0)
	b.clock.advance(6 * time.Second)
	beat("replica-2")
	lost(1)
	beat(replica)
	lost(0)
	ours, err := b.AttemptsOfReplica(b.t.Context(), replica)
	if err != nil || len(ours) != 1 || ours[0].Session != id || ours[0].Task != root || ours[0].Epoch != w.token.Epoch {
		t.Errorf("the attempts are %+v, %v", ours, err)
	}
	b.must(id, tree.Redeliver{Task: root, Epoch: w.token.Epoch})
	b.clock.advance(time.Minute)
	lost(0)
}

// definitions: a version stays as it was first put, and who puts another definition with it is told
// so: a tenant that knows two of them must not decide which of them others run.
func definitions(t *testing.T, d Dialect) {
	b := setup(t, d)
	if _, err := b.AgentVersion(b.t.Context(), "v1"); !errors.Is(err, tree.ErrNoAgent) {
		t.Errorf("no definition: %v", err)
	}
	for _, body := range []string{"first", "second", "first"} {
		want := map[bool]error{true: tree.ErrBadInput}[body != "first"]
		if err := b.PutAgentVersion(b.t.Context(), "general", "v1", []byte(body)); !errors.Is(err, want) {
			t.Errorf("putting the %s definition: %v", body, err)
		}
		if err := b.PutAgent(b.t.Context(), "other", store.AgentVersion{Name: "general", Version: "v1"}, []byte(body)); !errors.Is(err, want) {
			t.Errorf("a tenant that puts the %s definition: %v", body, err)
		}
	}
	if err := b.PutAgent(b.t.Context(), "third", store.AgentVersion{Name: "general", Version: "v1"}, []byte("second")); !errors.Is(err, tree.ErrBadInput) {
		t.Errorf("another tenant puts another definition: %v", err)
	}
	eq(t, "the agents of a tenant that was refused", len(must[[]store.AgentVersion](t)(b.TenantAgents(b.t.Context(), "third"))), 0)
	for range 2 {
		eq(t, "the definition", string(must[[]byte](t)(b.AgentVersion(b.t.Context(), "v1"))), "first")
		b.restart()
	}
}
