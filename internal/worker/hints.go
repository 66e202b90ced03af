package worker

import (
	"context"
	"sync"

	"github.com/coppice-run/coppice/internal/dispatch"
)

// hints is how slots get hints: those of a replica first whose streams go there. That one
// remembers what it has just committed of the session, which the others would read, and finds
// the session as it has left it. If there is none, another slot goes there.
type hintRouter struct {
	shared chan dispatch.Delivery

	mu        sync.Mutex
	byReplica map[string]chan dispatch.Delivery // by replica
}

func newHintRouter() *hintRouter {
	return &hintRouter{shared: make(chan dispatch.Delivery), byReplica: map[string]chan dispatch.Delivery{}}
}

// of gives the hints of a replica.
func (h *hintRouter) forReplica(replica string) <-chan dispatch.Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byReplica[replica] == nil {
		h.byReplica[replica] = make(chan dispatch.Delivery)
	}
	return h.byReplica[replica]
}

// give hands a hint to a slot: one whose stream goes to the replica that it is from, or else
// any. It reports false if ctx ends first.
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
