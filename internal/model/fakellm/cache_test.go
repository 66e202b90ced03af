package fakellm_test

import (
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestCache: what an agent's request has in common with its last one is read from the cache, and so
// is what agents of a kind have in common. What an answer has said itself stays.
func TestCache(t *testing.T) {
	t.Parallel()
	answer := &model.Answer{Blocks: []tree.Block{tree.Text{Text: "Fine."}}, Usage: tree.Usage{Output: 2}, Stop: tree.StopEndTurn}
	m, _ := serve(t, "anthropic", fakellm.Config{Model: always(answer)})
	long := func(text string) []tree.Block { return []tree.Block{tree.Text{Text: strings.Repeat(text, 5000)}} }
	req := ask()
	req.System = strings.Repeat("rules ", 5000)
	say := func() tree.Usage {
		t.Helper()
		a, err := m.Generate(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a.Usage
	}
	first := say()
	if first.CacheRead != 0 || first.CacheWrite < 30_000/4 || first.Output != 2 {
		t.Errorf("a first request takes %+v", first)
	}
	if again := say(); again.CacheRead != first.CacheWrite || again.CacheWrite != 0 {
		t.Errorf("the same again takes %+v, after %+v", again, first)
	}
	req.Messages = append(req.Messages, tree.Message{Role: tree.RoleAssistant, Blocks: answer.Blocks}, tree.Message{Role: tree.RoleUser, Blocks: long("more ")})
	if next := say(); next.CacheRead != first.CacheWrite || next.CacheWrite < 25_000/4 {
		t.Errorf("the next request takes %+v, after %+v", next, first)
	}
	req.Messages = []tree.Message{{Role: tree.RoleUser, Blocks: long("else ")}}
	if sibling := say(); sibling.CacheRead < 30_000/4 || sibling.CacheRead >= first.CacheWrite || sibling.CacheWrite < 25_000/4 {
		t.Errorf("another agent of its kind takes %+v, after %+v", sibling, first)
	}
	req.System = "Be brief."
	req.Messages = ask().Messages
	if short := say(); short.CacheRead+short.CacheWrite != 0 {
		t.Errorf("a short request takes %+v", short)
	}
	answer.Usage.CacheRead = 7
	if said := say(); said.CacheRead != 7 || said.CacheWrite != 0 {
		t.Errorf("an answer that says what was read has %+v", said)
	}
}
