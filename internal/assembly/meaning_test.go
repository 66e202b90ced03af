package assembly_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestAnOrchestratorRefusesWhatHasNoMeaning rather than to serve and do something else, or
// nothing at all.
func TestAnOrchestratorRefusesWhatHasNoMeaning(t *testing.T) {
	t.Parallel()
	redis, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	for says, change := range map[string]func(*assembly.Orchestrator){
		"(--max-tenant) is -3": func(o *assembly.Orchestrator) { o.RunningOfTenant = -3 },
		"(--max-all) is -1":    func(o *assembly.Orchestrator) { o.RunningInAll = -1 },
	} {
		o := assembly.Orchestrator{
			Database: filepath.Join(t.TempDir(), "coppice.db"), Redis: redis.Client(), Pool: assembly.DefaultPool,
			Limits: tree.DefaultLimits(), Logger: quiet(t),
		}
		change(&o)
		ctx, stop := context.WithCancel(t.Context())
		err := o.Run(ctx, stop) // if it serves it ends, without an error
		stop()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it ended with %v, want: %s", err, says)
		}
	}
}
