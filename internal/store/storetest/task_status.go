package storetest

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// openings: the answer to a command that opens a session equals what can be read. A repeat gets the
// session in its current state. A command for a session that exists, or was deleted, is refused.
func openings(t *testing.T, d Dialect) {
	b := setup(t, d)
	key := func(n int) *store.Key { return &store.Key{Key: "k", Hash: [32]byte{byte(n)}} }
	for n, change := range []func(*tree.CreateSession){
		func(*tree.CreateSession) {},
		func(c *tree.CreateSession) { c.Message = say("hello") },
		func(c *tree.CreateSession) { c.Metadata, c.Title = nil, "a title" },
		func(c *tree.CreateSession) {
			c.History = []tree.Message{{Role: tree.RoleUser, Blocks: say("before")}, {Role: tree.RoleAssistant, Blocks: say("yes")}}
		},
		func(c *tree.CreateSession) {
			agent := *general
			agent.Timeout, agent.OnComplete, c.Agent = time.Minute, "https://x.example/ended", &agent
			c.Source, c.Limits.NoBackground, c.Message = "mcp", true, say("go")
			c.Trace, c.Pin = tree.Trace{ID: [16]byte{1}, Parent: 1 << 63, Flags: 1}, tree.ModelPin{Provider: "p", Name: "m"}
		},
	} {
		for _, key := range []*store.Key{nil, key(1)} {
			cmd := create(2 * n)
			if key != nil {
				cmd = create(2*n + 1)
			}
			change(&cmd)
			b.opens(key, cmd)
			b.clock.advance(time.Second)
		}
	}
	cmd := create(1)
	b.must(cmd.ID, tree.Send{Message: say("more")})
	b.opens(key(1), cmd) // a repeat
	if _, _, err := b.Create(t.Context(), key(2), cmd, nil); !errors.Is(err, tree.ErrKeyReused) {
		t.Errorf("the key's other use was answered %v", err)
	}
	if _, _, err := b.Create(t.Context(), nil, cmd, nil); !errors.Is(err, tree.ErrSessionExists) {
		t.Errorf("opening what is open was answered %v", err)
	}
	refused := create(100)
	refused.Agent = nil
	if _, _, err := b.Create(t.Context(), nil, refused, nil); !errors.Is(err, tree.ErrNoAgent) {
		t.Errorf("an agent that is not there was answered %v", err)
	}
	b.must(cmd.ID, tree.DeleteSession{})
	for n := 1; n <= 2; n++ {
		if _, _, err := b.Create(t.Context(), key(n), cmd, nil); !errors.Is(err, tree.ErrDeleting) {
			t.Errorf("request %d with the key of a session that is being deleted was answered %v", n, err)
		}
	}
	b.purged()
	b.opens(key(2), cmd)
}

// opens carries the command out and checks that its answer equals what can be read.
func (b *bundle) opens(key *store.Key, cmd tree.CreateSession) {
	b.t.Helper()
	s, root, err := b.Create(b.t.Context(), key, cmd, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	session, task, err := b.SessionAndRoot(b.t.Context(), cmd.Tenant, cmd.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	if !reflect.DeepEqual(s, session) {
		b.t.Errorf("the session is\n%+v, not\n%+v", s, session)
	}
	eq(b.t, "the root", *root, *task)
	eq(b.t, "the session's root", task.ID, session.Root)
}

// looks: all ways to read a task agree, in each of its states. Tasks of other tenants, and tasks
// that do not exist, are not found.
func looks(t *testing.T, d Dialect) {
	b := setup(t, d)
	cmd := create(1)
	cmd.Limits.OutputBytes, cmd.Message = 40, say("go")
	root := b.must(cmd.ID, cmd).(tree.Created).Root
	b.create(2, "other")
	b.looksAt(cmd.ID)
	w := b.claim(cmd.ID, root)
	at := w.calls("task", "task", "task")
	answers, fails, goesOn := w.spawns(at, 1, true), w.spawns(at, 2, true), w.spawns(at, 3, true)
	b.looksAt(cmd.ID)
	b.claim(cmd.ID, answers).answers(strings.Repeat("x", 100) + "the end")
	failing := b.claim(cmd.ID, fails)
	failing.calls("read")
	failing.closes(1, "nothing", true)
	failing.fails(tree.ReasonToolError, "broken")
	b.claim(cmd.ID, goesOn).calls("read")
	b.looksAt(cmd.ID)
	b.must(cmd.ID, tree.Send{Task: answers, Message: say("once more")}) // another run
	b.looksAt(cmd.ID)
	b.claim(cmd.ID, answers).answers("more")
	b.must(cmd.ID, tree.Cancel{})
	b.looksAt(cmd.ID)
	b.leaves(cmd.ID, root)
	at0 := must[store.TaskStatus](t)(b.TaskStatus(t.Context(), "acme", cmd.ID, tree.TaskID{}))
	eq(t, "how far the root is", at0, store.TaskStatus{Task: root, Run: 1, State: tree.StateCancelled})
	for _, c := range []struct {
		what    string
		tenant  string
		session tree.SessionID
		task    tree.TaskID
		want    error
	}{
		{"another tenant's root", "other", cmd.ID, tree.TaskID{}, tree.ErrNoSession},
		{"another tenant's task", "other", cmd.ID, answers, tree.ErrNoSession},
		{"another session's task", "acme", session(2), answers, tree.ErrNoTask},
		{"no task", "acme", cmd.ID, tree.TaskID{7}, tree.ErrNoTask},
		{"no session", "acme", session(3), tree.TaskID{}, tree.ErrNoSession},
	} {
		b.misses(c.what, c.tenant, c.session, c.task, c.want)
	}
	b.must(cmd.ID, tree.DeleteSession{})
	b.misses("a root that was deleted", "acme", cmd.ID, tree.TaskID{}, tree.ErrNoSession)
	b.misses("a task that was deleted", "acme", cmd.ID, answers, tree.ErrNoSession)
}

// looksAt compares all ways to read the tasks of a session.
func (b *bundle) looksAt(id tree.SessionID) {
	b.t.Helper()
	for _, t := range must[[]tree.Task](b.t)(b.Tree(b.t.Context(), id)) {
		want := must[tree.RunOutput](b.t)(b.Output(b.t.Context(), &t))
		asked := []tree.TaskID{t.ID}
		if t.Parent.IsZero() && t.Branch == tree.BranchMain {
			asked = append(asked, tree.TaskID{})
		}
		for _, task := range asked {
			eq(b.t, "how far a task is", must[store.TaskStatus](b.t)(b.TaskStatus(b.t.Context(), "acme", id, task)), store.TaskStatusOf(&t))
			eq(b.t, "a task", *must[*tree.Task](b.t)(b.TaskOf(b.t.Context(), "acme", id, task)), t)
			got, out, err := b.TaskAndOutput(b.t.Context(), "acme", id, task)
			if err != nil {
				b.t.Fatal(err)
			}
			eq(b.t, "a task with its output", *got, t)
			if !reflect.DeepEqual(out, want) {
				b.t.Errorf("the output of a task that is %s is\n%+v, not\n%+v", t.State, out, want)
			}
		}
		b.ended(&t, want)
	}
}

// ended compares what a commit knows of the end of a task's run with what is read of it.
func (b *bundle) ended(t *tree.Task, want tree.RunOutput) {
	b.t.Helper()
	b.mu.Lock()
	end := b.ends[t.ID]
	b.mu.Unlock()
	if !t.State.Terminal() {
		return
	}
	if end == nil {
		b.t.Fatalf("nobody was told of the end of a task that is %s", t.State)
	}
	eq(b.t, "the run that has ended", end.Run(), tree.ChildRun{Task: t.ID, Run: t.Run})
	got, out, err := b.OutputAtEnd(b.t.Context(), end)
	if err != nil {
		b.t.Fatal(err)
	}
	eq(b.t, "how far a task has come that has ended", store.TaskStatusOf(got), store.TaskStatusOf(t))
	if !reflect.DeepEqual(out, want) {
		b.t.Errorf("the output of a task that has ended %s is\n%+v, not\n%+v", t.State, out, want)
	}
}

// leaves compares the session as the commit that ended a task's run knows it with what is read.
// Nothing must have happened after that commit.
func (b *bundle) leaves(id tree.SessionID, task tree.TaskID) {
	b.t.Helper()
	b.mu.Lock()
	left := b.ends[task].Session()
	b.mu.Unlock()
	now, _, err := b.SessionAndRoot(b.t.Context(), "acme", id)
	if err != nil {
		b.t.Fatal(err)
	}
	if !reflect.DeepEqual(left, now) {
		b.t.Errorf("the end has left the session\n%+v, not\n%+v", left, now)
	}
}

func (b *bundle) misses(what, tenant string, id tree.SessionID, task tree.TaskID, want error) {
	b.t.Helper()
	if _, err := b.TaskStatus(b.t.Context(), tenant, id, task); !errors.Is(err, want) {
		b.t.Errorf("how far %s is was answered %v", what, err)
	}
	if _, err := b.TaskOf(b.t.Context(), tenant, id, task); !errors.Is(err, want) {
		b.t.Errorf("%s was answered %v", what, err)
	}
	if _, _, err := b.TaskAndOutput(b.t.Context(), tenant, id, task); !errors.Is(err, want) {
		b.t.Errorf("%s and its output was answered %v", what, err)
	}
}

// promptOfMany: a run that starts with several messages was asked with the first of them, also where
// the cache of prompts was full just then.
func promptOfMany(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "go")
	b.claim(id, root)
	b.must(id, tree.Send{Message: say(strings.Repeat("first ", 2<<10))})
	b.must(id, tree.Send{Message: say("second")})
	for n := range 2 {
		b.create(2+n, strings.Repeat("x", 1<<20-2<<10))
	}
	b.must(id, tree.Cancel{}) // the messages start the next run
	b.claim(id, root).answers("done")
	eq(t, "the run", must[*tree.Task](t)(b.Task(t.Context(), id, root)).Run, 2)
	b.looksAt(id)
}
