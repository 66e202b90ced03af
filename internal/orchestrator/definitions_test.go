package orchestrator_test

import (
	"fmt"
	"strings"
	"testing"
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
