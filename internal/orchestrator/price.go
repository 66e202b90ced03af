package orchestrator

import (
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// setCost sets the cost of a model's answer, by the current prices of this replica. It is called
// before the answer is stored, and a stored cost never changes when prices do. If the model has no
// price, the answer has no cost, whatever the worker says.
func (s *Service) setCost(answer *pb.Message) {
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
