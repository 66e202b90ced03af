package store

import (
	"context"
	"runtime"
	"time"
)

// committer makes one transaction after another of the commands that queue to it.
// A session's commands all queue to the same one, so they are decided in order.
type committer struct {
	*Store
	writer        writer
	queue         chan *Pending
	maxBatch      int // of commands in one transaction
	sessionCache  *sessionCache
	firstMessages firstMessageCache
	tails         tailCache
	prompts       promptCache
	rowBuffers    [2][]any // rows that are only compared: they are large
	dbClock       dbClock
	tenantTurns   *tenantTurns // only of the one that takes steps
}

func (s *Store) newCommitter(most int, timeout time.Duration) *committer {
	return &committer{
		Store: s, writer: packingWriter{s.db.writer(timeout), s.mayPack, s.db.layout()}, queue: make(chan *Pending, 4*s.MaxBatch), maxBatch: most, sessionCache: newSessionCache(s.Committers),
		firstMessages: newFirstMessageCache(), tails: newTailCache(), prompts: newPromptCache(), tenantTurns: newTenantTurns(),
	}
}

func (c *committer) run(ctx context.Context) {
	idle := time.NewTicker(sessionCacheTTL)
	defer idle.Stop()
	for ctx.Err() == nil {
		select {
		case p := <-c.queue:
			c.commit(context.WithoutCancel(ctx), c.gather(p))
		case <-idle.C:
			c.sessionCache.evictIdle()
		case <-ctx.Done():
		}
	}
}

// gather takes what has queued, up to a batch or what is queued together. Who has just been
// answered gets the chance to ask for more first: fewer and larger transactions take less.
func (c *committer) gather(first *Pending) []*Pending {
	batch := append([]*Pending{first}, first.group...)
	for before := 0; before < len(batch) && len(batch) < c.maxBatch; {
		before = len(batch)
		runtime.Gosched()
		for len(c.queue) > 0 && len(batch) < c.maxBatch {
			p := <-c.queue
			batch = append(append(batch, p), p.group...)
		}
	}
	return batch
}
