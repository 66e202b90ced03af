package orchestrator

import (
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// price puts a price on what a model has said, by the prices that are known here now.
// It comes before the answer is recorded, and what is recorded never changes: a bill
// does not either when prices do. An answer of a model without a price has none,
// whatever a worker says.
func (s *Service) price(answer *pb.Message) {
	u := answer.GetUsage()
	if u == nil {
		return
	}
	u.CostMicros, u.PricedTokens = nil, 0
	usage := wire.UsageFrom(u)
	if cost, ok := s.Prices.Cost(answer.GetModel(), usage); ok {
		micros := int64(cost)
		u.CostMicros, u.PricedTokens = &micros, usage.Total()
	}
}
