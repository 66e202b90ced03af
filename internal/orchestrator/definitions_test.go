package orchestrator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestCachedDefinitionsAreBounded: a tenant that puts ever more long definitions does not use up the
// memory that all tenants share.
func TestCachedDefinitionsAreBounded(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	_, limit := svc.CachedPrompts()
	prompt := strings.Repeat("Go on.\n", 35_000)
	put := func(n int) {
		t.Helper()
		definition := fmt.Sprintf("---\nname: long\ndescription: number %d\nmode: primary\n---\n%s", n, prompt)
		if _, err := svc.PutAgent(t.Context(), tenant, definition); err != nil {
			t.Fatal(err)
		}
	}
	put(0)
	if bytes, _ := svc.CachedPrompts(); bytes < len(prompt)-1 {
		t.Errorf("after one definition, %d bytes are cached", bytes)
	}
	for n := range limit/len(prompt) + 1 {
		put(n + 1)
		if bytes, _ := svc.CachedPrompts(); bytes > limit {
			t.Fatalf("after %d definitions, %d bytes are cached", n+2, bytes)
		}
	}
}

// TestADefinitionWhoseVersionIsTaken is not used, and others are.
func TestADefinitionWhoseVersionIsTaken(t *testing.T) {
	t.Parallel()
	svc := setup(t)
	explore, _ := agentdef.Builtin().Get("explore")
	if err := svc.Store.PutAgentVersion(t.Context(), "explore", explore.Version, []byte("another definition")); err != nil {
		t.Fatal(err)
	}
	if err := svc.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, problems, err := svc.ListAgents(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 1 || !errors.Is(problems[0].Err, tree.ErrBadInput) {
		t.Errorf("the problems are %v", problems)
	}
	var names []string
	for _, def := range all {
		names = append(names, def.Name)
	}
	if !slices.Equal(names, []string{"general-purpose", "guide", "plan"}) {
		t.Errorf("in use are %v", names)
	}
}
