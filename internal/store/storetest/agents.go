package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// tenantAgents: each tenant has its own; what it puts counts at once, and versions
// stay when they don't count any more.
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
	eq(t, "how many versions there are of another tenant's", len(must[[]store.AgentVersion](t)(b.AgentVersions(ctx, "other", "b", 10))), 0)
}

// pins: the model of a task is what it was pinned to.
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
