package worker

import (
	"context"
	"sync"

	"github.com/coppice-run/coppice/internal/dispatch"
)

// hintRouter hands hints to slots. A hint goes to a slot that is connected to the replica that
// sent the hint, because that replica still has the session in memory and need not read it. If no
// such slot waits, any slot gets the hint and reconnects.
type hintRouter struct {
	shared chan dispatch.Delivery

	mu        sync.Mutex
	byReplica map[string]chan dispatch.Delivery // by replica
}

func newHintRouter() *hintRouter {
	return &hintRouter{shared: make(chan dispatch.Delivery), byReplica: map[string]chan dispatch.Delivery{}}
}

// forReplica returns the channel of hints from a replica.
func (h *hintRouter) forReplica(replica string) <-chan dispatch.Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byReplica[replica] == nil {
		h.byReplica[replica] = make(chan dispatch.Delivery)
	}
	return h.byReplica[replica]
}

// deliver hands a hint to a slot that is connected to its replica, or else to any slot. It returns
// false if ctx ends first.
func (h *hintRouter) deliver(ctx context.Context, d dispatch.Delivery) bool {
	h.mu.Lock()
	near := h.byReplica[d.Hint.From]
	h.mu.Unlock()
	select {
	case near <- d:
		return true
	default:
	}
	select {
	case h.shared <- d:
		return true
	case <-ctx.Done():
		return false
	}
}
