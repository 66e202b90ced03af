package store

import (
	"context"
	"runtime"
	"time"
)

// committer makes one transaction after another of the commands that queue to it. All commands of a
// session queue to the same committer, so they are decided in order.
type committer struct {
	*Store
	writer        writer
	queue         chan *Pending
	maxBatch      int // commands in one transaction
	sessionCache  *sessionCache
	firstMessages firstMessageCache
	tails         tailCache
	prompts       promptCache
	rowBuffers    [2][]any // reused for large rows that are only compared
	dbClock       dbClock
	agents        map[string]*[]AgentVersion // of tenants; nil: a transaction has changed some, or failed
	tenantTurns   *tenantTurns               // used only by the committer of steps
}

func (s *Store) newCommitter(most int, timeout time.Duration) *committer {
	return &committer{
		Store: s, writer: packingWriter{s.db.writer(timeout), s.mayPack, s.db.layout(), new(rowJoiner)}, queue: make(chan *Pending, 4*s.MaxBatch), maxBatch: most, sessionCache: newSessionCache(s.Committers),
		firstMessages: newFirstMessageCache(), tails: newTailCache(), prompts: newPromptCache(), tenantTurns: newTenantTurns(),
	}
}

// run makes transactions, which storing may end, until ctx ends.
func (c *committer) run(ctx, storing context.Context) {
	idle := time.NewTicker(sessionCacheTTL)
	defer idle.Stop()
	for ctx.Err() == nil {
		select {
		case p := <-c.queue:
			c.commit(storing, c.gather(p))
		case <-idle.C:
			c.sessionCache.evictIdle()
		case <-ctx.Done():
		}
	}
}

// ampleBatch is how many commands make a transaction worth its fixed costs. With fewer, gather waits
// a moment for more.
const ampleBatch = 40

// gather takes what has queued, up to a batch or a group that was queued together. While it has only
// a few commands, it yields the processor first, so that callers that were just answered can queue
// more: fewer and larger transactions cost less. With an ample batch it does not, because the
// database would be idle meanwhile.
func (c *committer) gather(first *Pending) []*Pending {
	batch := append([]*Pending{first}, first.group...)
	for before := 0; before < len(batch) && len(batch) < c.maxBatch; {
		before = len(batch)
		if len(batch)+len(c.queue) < ampleBatch {
			runtime.Gosched()
		}
		for len(c.queue) > 0 && len(batch) < c.maxBatch {
			p := <-c.queue
			batch = append(append(batch, p), p.group...)
		}
	}
	return batch
}
