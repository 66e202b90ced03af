package provider_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/provider"
	"github.com/coppice-run/coppice/internal/tree"
)

// thinks answers after a while.
type thinks time.Duration

func (d thinks) Generate(ctx context.Context, _ *model.Request, _ func(model.Delta)) (*model.Answer, error) {
	select {
	case <-time.After(time.Duration(d)):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "Fine."}}, Stop: tree.StopEndTurn}, nil
}

// TestSiblingsWriteOnce: of agents of a kind that start together one writes their system prompt into
// Anthropic's cache, and the others read it.
func TestSiblingsWriteOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(fakellm.New(fakellm.Config{Model: thinks(300 * time.Millisecond)}))
	t.Cleanup(server.Close)
	c, err := choose(provider.Flags{}, map[string]string{"ANTHROPIC_BASE_URL": server.URL})
	if err != nil {
		t.Fatal(err)
	}
	const siblings = 8
	usages := make(chan tree.Usage, siblings)
	var asking sync.WaitGroup
	for i := range siblings {
		asking.Go(func() {
			a, err := c.Model.Generate(t.Context(), &model.Request{
				System:   strings.Repeat("rules ", 5000),
				Messages: []tree.Message{{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: strings.Repeat("Look. ", i+1)}}}},
			}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			usages <- a.Usage
		})
	}
	asking.Wait()
	close(usages)
	wrote := 0
	for u := range usages {
		if u.CacheRead == 0 {
			wrote++
		}
	}
	if wrote != 1 {
		t.Errorf("%d of %d wrote the system prompt", wrote, siblings)
	}
}
