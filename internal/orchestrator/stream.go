package orchestrator

import (
	"context"
	"time"
)

// How often what is on the dispatch stream is counted, and up to how many; and how often readers of
// it are forgotten that have read nothing for how long. A worker whose slots are all busy, or
// stand by, reads nothing either, and is a reader again with its next read.
const (
	streamCheckInterval = time.Second
	maxHintsCounted     = 1000
	forgetInterval      = 10 * time.Minute
	readerIdleAfter     = time.Hour
)

// superviseStream counts what is on the dispatch stream now and then, until ctx ends. What can't be
// counted, nobody can come for either.
func (s *Service) superviseStream(ctx context.Context) error {
	tick := time.NewTicker(streamCheckInterval)
	defer tick.Stop()
	var forgotten time.Time
	for {
		if err := s.reconcileStream(ctx); err != nil {
			s.Logger.DebugContext(ctx, "what is on the dispatch stream was not seen to", "error", err)
		}
		if now := time.Now(); now.Sub(forgotten) >= forgetInterval {
			forgotten = now
			s.forgetIdleReaders(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// forgetIdleReaders has Redis forget workers that have vanished without anybody knowing that they are
// dead: their machine is gone too, or Redis was away when they ended. What there is no time for is
// for the next look.
func (s *Service) forgetIdleReaders(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	seen, err := s.Bus.ForgetIdle(ctx, s.Pool, readerIdleAfter)
	if err != nil {
		s.Logger.DebugContext(ctx, "readers of the dispatch stream were not forgotten", "error", err)
	}
	if seen > 0 {
		s.Logger.InfoContext(ctx, "workers that have long read no hints are no readers of the dispatch stream any more", "workers", seen)
	}
}

// reconcileStream counts what is on the dispatch stream, and takes off what is over.
func (s *Service) reconcileStream(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	unread, err := s.Bus.Unread(reading, s.Pool, maxHintsCounted)
	if err != nil {
		s.backlog.streamUnreadable(time.Now())
		return err
	}
	stale, err := s.discardStale(ctx, unread)
	s.backlog.reconcile(time.Now(), len(unread)-stale, s.pullingSlots())
	return err
}

// discardConsumer is the consumer that replicas are which take hints off the dispatch stream.
const discardConsumer = "orchestrators"

// discardStale takes hints off the dispatch stream that nobody reads, and whose runs are over: all if no
// run waits, and otherwise the oldest if there are more of them than runs that wait, and the
// stream is crowded. It gives how many. While slots come for hints they do that themselves, and
// the database is not asked what waits. Should there be one among them whose run does wait,
// its announcement runs out.
func (s *Service) discardStale(ctx context.Context, unread []string) (int, error) {
	if len(unread) == 0 || s.claimRate.sinceLast(s.Now()) < streamCheckInterval {
		return 0, nil
	}
	work, err := s.Store.Work(ctx) // after the hints, which are of runs that were ready before
	if err != nil {
		return 0, err
	}
	keep := 0
	if waiting := work.Ready + work.Held; waiting > 0 {
		keep = max(waiting, crowdedFactor*s.announceLimit())
	}
	n := max(0, len(unread)-keep)
	others, err := s.Bus.Discard(ctx, s.Pool, discardConsumer, unread[:n])
	if err != nil {
		return 0, err
	}
	return n, s.reannounce(ctx, others)
}
