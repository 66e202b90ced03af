package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// budgetFlags bound what all tasks of a session may use together.
type budgetFlags struct {
	MaxTokens     *int     `env:"" placeholder:"N" help:"Maximum number of tokens of the tree, of all kinds; 0 means no limit."`
	MaxCost       *float64 `env:"" placeholder:"DOLLARS" help:"Maximum cost of the tree, as far as prices are known; 0 means no limit."`
	MaxModelCalls *int     `env:"" placeholder:"N" help:"Maximum number of model calls of the tree; 0 means no limit."`
}

// budgetFrom returns a budget with the flags applied; nil if there are no flags.
func (f budgetFlags) budgetFrom(was *pb.Budget) (*pb.Budget, error) {
	if f == (budgetFlags{}) {
		return nil, nil
	}
	budget := &pb.Budget{Tokens: was.GetTokens(), CostMicros: was.GetCostMicros(), ModelCalls: was.GetModelCalls()}
	if tokens := f.MaxTokens; tokens != nil {
		if *tokens < 0 {
			return nil, usagef("--max-tokens %d is negative", *tokens)
		}
		budget.Tokens = int64(*tokens)
	}
	if cost := f.MaxCost; cost != nil {
		micros, err := tree.Micros(*cost)
		if err != nil {
			return nil, usagef("--max-cost is %s; %w", strconv.FormatFloat(*cost, 'f', -1, 64), err)
		}
		budget.CostMicros = micros
	}
	if calls := f.MaxModelCalls; calls != nil {
		if *calls < 0 {
			return nil, usagef("--max-model-calls %d is negative", *calls)
		}
		budget.ModelCalls = int64(*calls)
	}
	return budget, nil
}

type budgetCommand struct {
	remote
	budgetFlags
	None    bool   `env:"" help:"Remove the budget; the orchestrator's own limits remain."`
	Session string `arg:"" help:"The session."`
}

// Run shows the usage and the budget of a session, and changes the budget on request.
func (b *budgetCommand) Run(ctx context.Context, a *app) error {
	return b.with(func(c *client) error {
		id, err := c.session(ctx, b.Session)
		if err != nil {
			return err
		}
		resp, err := c.sessions.GetSession(ctx, &pb.GetSessionRequest{SessionId: id})
		if err != nil {
			return during("reading the session", err)
		}
		session := resp.GetSession()
		budget, err := b.budgetFrom(session.GetBudget())
		switch {
		case err != nil:
			return err
		case b.None && budget != nil:
			return usagef("--none can't be used with --max-tokens, --max-cost and --max-model-calls")
		case b.None:
			budget = &pb.Budget{}
		}
		if budget != nil {
			changed, err := c.sessions.UpdateSession(ctx, &pb.UpdateSessionRequest{SessionId: id, Budget: budget})
			if err != nil {
				return during("giving the session another budget", err)
			}
			session = changed.GetSession()
		}
		if a.json {
			return a.printJSON(session)
		}
		return a.print(budgetText(session, a.theme().separator))
	})
}

// budgetText formats the usage and the budget of a session, and the reserve for calls in progress.
func budgetText(s *pb.Session, dot string) string {
	used, budget := tokenUsage{}.addUsage(s.GetUsage()), s.GetBudget()
	tokens, cost := countText(used.tokens), used.cost()
	if budget.GetTokens() > 0 {
		tokens += " of " + countText(budget.GetTokens())
	}
	parts := []string{tokens + " tokens"}
	if budget.GetCostMicros() > 0 {
		cost = moneyText(used.micros) + " of " + moneyText(budget.GetCostMicros())
		if used.priced < used.tokens {
			cost += ", and " + countText(used.tokens-used.priced) + " tokens of unknown cost"
		}
	}
	if cost != "" {
		parts = append(parts, cost)
	}
	switch made, most := s.GetModelCalls(), budget.GetModelCalls(); {
	case most > 0:
		parts = append(parts, fmt.Sprintf("%d of %s", made, plural(most, "model call")))
	case made > 0:
		parts = append(parts, plural(made, "model call"))
	}
	if reserved := reservedText(s.GetReserved()); reserved != "" {
		parts = append(parts, "reserved for calls in progress: "+reserved)
	}
	return strings.Join(parts, dot)
}

func reservedText(b *pb.Budget) string {
	var parts []string
	if tokens := b.GetTokens(); tokens > 0 {
		parts = append(parts, countText(tokens)+" tokens")
	}
	if micros := b.GetCostMicros(); micros > 0 {
		parts = append(parts, moneyText(micros))
	}
	if calls := b.GetModelCalls(); calls > 0 {
		parts = append(parts, plural(calls, "model call"))
	}
	return strings.Join(parts, ", ")
}
