package loop_test

import (
	"testing"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestNoCallAfterMakingWayInVain: a run that is to make way hears that others have meanwhile
// spent the budget, and calls no model.
func TestNoCallAfterMakingWayInVain(t *testing.T) {
	t.Parallel()
	asked := 0
	c := newCore(t, answers(func(*model.Request) (*model.Answer, error) { asked++; return says("done") }))
	start(t, c) // uses 5 tokens
	c.must(tree.Send{Message: []tree.Block{tree.Text{Text: "again"}}})
	c.prepare = func(r *loop.Run) {
		r.BudgetShort = true
		c.must(tree.ChangeSession{Budget: &tree.Budget{Tokens: 5}}) // stands for an answer of another run
	}
	c.play(t.Context())
	if asked != 1 {
		t.Errorf("the model was called %d times, once before the budget was spent", asked)
	}
}

// TestNoCallAfterASummaryThatSpendsTheBudget.
func TestNoCallAfterASummaryThatSpendsTheBudget(t *testing.T) {
	t.Parallel()
	after, summed := 0, false
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		if summed {
			after++
		}
		if asksForSummary(req) {
			summed = true
			a, err := worker(req)
			a.Usage = tree.Usage{Input: 1_000_000}
			return a, err
		}
		return worker(req)
	}))
	c.compactAt = 70
	c.must(tree.CreateSession{
		ID: tree.SessionID(c.newID()), Tenant: "t", Agent: c.agents["root"], Limits: tree.DefaultLimits(),
		Budget: tree.Budget{Tokens: 1_000_000}, Message: []tree.Block{tree.Text{Text: "go"}},
	})
	c.play(t.Context())
	if !summed || after != 0 {
		t.Errorf("summed up: %t, and %d calls after the budget was spent", summed, after)
	}
}
