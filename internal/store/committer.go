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
	writer     writer
	queue      chan *Pending
	most       int // of commands in one transaction
	known      *known
	beginnings beginnings
	wakings    wakings
	prompts    prompts
	compared   [2][]any // rows that are only compared: they are large
	present    present
	turns      *turns // only of the one that takes steps
}

func (s *Store) newCommitter(most int, patience time.Duration) *committer {
	return &committer{
		Store: s, writer: packingWriter{s.db.writer(patience), s.packs, s.db.layout()}, queue: make(chan *Pending, 4*s.MaxBatch), most: most, known: newKnown(s.Committers),
		beginnings: newBeginnings(), wakings: newWakings(), prompts: newPrompts(), turns: newTurns(),
	}
}

func (c *committer) run(ctx context.Context) {
	idle := time.NewTicker(knownFor)
	defer idle.Stop()
	for ctx.Err() == nil {
		select {
		case p := <-c.queue:
			c.commit(context.WithoutCancel(ctx), c.gather(p))
		case <-idle.C:
			c.known.forgetIdle()
		case <-ctx.Done():
		}
	}
}

// gather takes what has queued, up to a batch or what is queued together. Who has just been
// answered gets the chance to ask for more first: fewer and larger transactions take less.
func (c *committer) gather(first *Pending) []*Pending {
	batch := append([]*Pending{first}, first.with...)
	for before := 0; before < len(batch) && len(batch) < c.most; {
		before = len(batch)
		runtime.Gosched()
		for len(c.queue) > 0 && len(batch) < c.most {
			p := <-c.queue
			batch = append(append(batch, p), p.with...)
		}
	}
	return batch
}
