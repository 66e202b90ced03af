package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// tenantAgents: each tenant has its own agents. A version that a tenant puts is current at once,
// and versions stay when they are no longer current.
func tenantAgents(t *testing.T, d Dialect) {
	b := setup(t, d)
	ctx := t.Context()
	put := func(tenant, name, version string) {
		t.Helper()
		if err := b.PutAgent(ctx, tenant, store.AgentVersion{Name: name, Version: version}, []byte("body "+version)); err != nil {
			t.Fatal(err)
		}
		b.clock.advance(time.Second)
	}
	expect := func(tenant, want string) {
		t.Helper()
		got := ""
		for _, a := range must[[]store.AgentVersion](t)(b.TenantAgents(ctx, tenant)) {
			got += fmt.Sprintf("%s@%s ", a.Name, a.Version)
		}
		eq(t, "the agents of "+tenant, got, want)
	}
	expect("acme", "")
	put("acme", "b", "v1")
	put("acme", "a", "v2")
	put("other", "a", "v2")
	put("acme", "b", "v3")
	expect("acme", "a@v2 b@v3 ")
	expect("other", "a@v2 ")
	put("acme", "b", "v1")
	b.restart()
	expect("acme", "a@v2 b@v1 ")
	eq(t, "what was dropped", must[string](t)(b.DropAgent(ctx, "acme", "b")), "v1")
	if _, err := b.DropAgent(ctx, "acme", "b"); !errors.Is(err, tree.ErrNoAgent) {
		t.Errorf("dropped twice: %v", err)
	}
	if _, err := b.DropAgent(ctx, "nobody", "a"); !errors.Is(err, tree.ErrNoAgent) {
		t.Errorf("dropped by another tenant: %v", err)
	}
	expect("acme", "a@v2 ")
	for _, version := range []string{"v1", "v3"} {
		eq(t, "a version", string(must[[]byte](t)(b.AgentVersion(ctx, version))), "body "+version)
	}
	versions := must[[]store.AgentVersion](t)(b.AgentVersions(ctx, "acme", "b", 10))
	if len(versions) != 2 || versions[0].Version != "v1" || versions[1].Version != "v3" || !versions[0].PutAt.After(versions[1].PutAt) {
		t.Errorf("the versions of b are %+v", versions)
	}
	for _, of := range []struct {
		tenant, version string
		want            bool
	}{{"acme", "v3", true}, {"acme", "v2", false}, {"other", "v3", false}} {
		eq(t, of.tenant+" has put b@"+of.version, must[bool](t)(b.HasAgentVersion(ctx, of.tenant, "b", of.version)), of.want)
	}
	eq(t, "how many versions there are of another tenant's", len(must[[]store.AgentVersion](t)(b.AgentVersions(ctx, "other", "b", 10))), 0)
}

// pins: the model of a task is the one that it has pinned.
func pins(t *testing.T, d Dialect) {
	b := setup(t, d)
	id := session(1)
	agent := &tree.Agent{Name: "general", Version: "v1", Mode: tree.ModeBoth}
	pin := tree.ModelPin{Provider: "acme", Name: "big"}
	opened := b.must(id, tree.CreateSession{
		ID: id, Tenant: "acme", Agent: agent, Limits: tree.DefaultLimits(), Pin: pin, Message: []tree.Block{tree.Text{Text: "go"}},
	}).(tree.Created)
	child := b.must(id, tree.SpawnTask{Child: tree.Child{Agent: agent, AgentName: "general", Prompt: "look"}}).(tree.Spawned)
	b.restart()
	for _, task := range []tree.TaskID{opened.Root, child.Task} {
		eq(t, "the model", must[*tree.Task](t)(b.Task(t.Context(), id, task)).Pin, pin)
	}
}

// agentsThen: a session is opened only if its tenant's agents are still those that the command was
// made with. Other commands of the same transaction are carried out.
func agentsThen(t *testing.T, d Dialect) {
	b := setup(t, d)
	ctx := t.Context()
	put := func(tenant, name string) *store.AgentsSnapshot {
		t.Helper()
		if err := b.PutAgent(ctx, tenant, store.AgentVersion{Name: name, Version: "v1"}, []byte("body")); err != nil {
			t.Fatal(err)
		}
		return must[*store.AgentsSnapshot](t)(b.SnapshotAgents(ctx, tenant))
	}
	tenant := create(0).Tenant
	none := must[*store.AgentsSnapshot](t)(b.SnapshotAgents(ctx, tenant))
	b.createdWith(none, 1, nil)
	one := put(tenant, "b")
	put("other", "a")
	b.createdWith(none, 2, store.ErrAgentsChanged)
	b.createdWith(one, 2, nil)
	two := put(tenant, "a")
	eq(t, "how many there are", len(two.Versions()), 2)
	b.restart()
	outcomes := make([]error, 6)
	var all sync.WaitGroup
	for n, then := range []*store.AgentsSnapshot{none, one, two, nil, one, two} {
		all.Go(func() {
			cmd := create(10 + n)
			if n == 4 {
				cmd.Agent = nil // may well be one that is there now
			}
			_, _, outcomes[n] = b.Create(ctx, nil, cmd, then)
		})
	}
	all.Wait()
	for n, want := range []error{store.ErrAgentsChanged, store.ErrAgentsChanged, nil, nil, store.ErrAgentsChanged, nil} {
		if !errors.Is(outcomes[n], want) {
			t.Errorf("session %d was answered %v, not %v", 10+n, outcomes[n], want)
		}
	}
	if _, err := b.DropAgent(ctx, tenant, "a"); err != nil {
		t.Fatal(err)
	}
	b.createdWith(two, 20, store.ErrAgentsChanged)
	b.createdWith(one, 20, nil)
}

// createdWith opens a session with a snapshot of its tenant's agents.
func (b *bundle) createdWith(then *store.AgentsSnapshot, n int, want error) {
	b.t.Helper()
	cmd := create(n)
	_, _, err := b.Create(b.t.Context(), nil, cmd, then)
	if !errors.Is(err, want) {
		b.t.Errorf("session %d was answered %v, not %v", n, err, want)
	}
	_, err = b.Session(b.t.Context(), cmd.Tenant, cmd.ID)
	if there := err == nil; there != (want == nil) {
		b.t.Errorf("session %d is there: %t", n, there)
	}
}
