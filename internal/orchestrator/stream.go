package orchestrator

import (
	"context"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
)

// The hints on the dispatch stream are counted each streamCheckInterval, up to maxHintsCounted.
// Consumers that have read nothing for readerIdleAfter are removed each forgetInterval. A worker
// whose slots are all busy or stand by reads nothing either; it becomes a consumer again with its
// next read.
const (
	streamCheckInterval = time.Second
	maxHintsCounted     = 1000
	forgetInterval      = 10 * time.Minute
	readerIdleAfter     = time.Hour
)

// superviseStream checks the dispatch stream regularly until ctx ends. While it can't be read, no
// slot is expected to claim a hint from it.
func (s *Service) superviseStream(ctx context.Context) error {
	tick := time.NewTicker(streamCheckInterval)
	defer tick.Stop()
	var forgotten time.Time
	for {
		if err := s.reconcileStream(ctx); err != nil {
			s.Logger.DebugContext(ctx, "checking the dispatch stream failed", "error", err)
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

// forgetIdleReaders removes consumers whose workers vanished without being found dead: their
// machine is gone too, or Redis was away when they ended. Consumers that do not fit into the
// timeout are left for the next time.
func (s *Service) forgetIdleReaders(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	seen, err := s.Bus.ForgetIdle(ctx, s.Pool, readerIdleAfter)
	if err != nil {
		s.Logger.DebugContext(ctx, "removing idle readers of the dispatch stream failed", "error", err)
	}
	if seen > 0 {
		s.Logger.InfoContext(ctx, "idle readers of the dispatch stream were removed", "workers", seen)
	}
}

// reconcileStream counts the unread hints on the dispatch stream, and discards stale ones.
func (s *Service) reconcileStream(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	unread, err := s.Bus.Unread(reading, s.Pool, maxHintsCounted)
	unusable := err
	if err == nil && s.backlog.isRefused() {
		unusable = s.Bus.CheckWritable(reading, s.Pool) // otherwise workers can't read hints either
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.noteRedis(ctx, unusable)
	if err != nil {
		s.backlog.streamUnreadable(time.Now())
		return err
	}
	stale, err := s.discardStale(ctx, unread)
	s.backlog.reconcile(time.Now(), len(unread)-stale, s.pullingSlots())
	return err
}

// noteRedis notes whether Redis can be used, and logs when an outage begins and when it is over.
// Nothing waits for Redis: without it nothing is lost, but workers hear of work late.
func (s *Service) noteRedis(ctx context.Context, err error) {
	switch wasAway := s.redisAway.Swap(err != nil); {
	case !wasAway && dispatch.IsDenied(err):
		// It may serve workers, which then wait there for hints that do not come.
		s.Logger.WarnContext(ctx, "Redis refuses the user or the password of this orchestrator; nothing is lost, but runs may wait until that is corrected", "redis", s.Bus.Addr(), "error", err)
	case !wasAway && err != nil:
		s.Logger.WarnContext(ctx, "Redis can't be reached; nothing is lost, and work continues more slowly until it is back", "redis", s.Bus.Addr(), "error", err)
	case wasAway && err == nil:
		s.Logger.InfoContext(ctx, "Redis can be reached again", "redis", s.Bus.Addr())
	}
	s.openStandby()
}

// discardConsumer is the consumer under which replicas take hints off the dispatch stream.
const discardConsumer = "orchestrators"

// discardStale takes unread hints whose runs are over off the dispatch stream, and returns how
// many. If no run waits, it discards all unread hints. Otherwise it discards the oldest ones beyond
// the number of waiting runs, and only if the stream is crowded.
//
// While slots claim hints they remove stale ones themselves, and the database is not asked. If the
// run of a discarded hint does wait, it is announced again when its announcement expires.
func (s *Service) discardStale(ctx context.Context, unread []string) (int, error) {
	if len(unread) == 0 || s.claimRate.sinceLast(s.Now()) < streamCheckInterval {
		return 0, nil
	}
	work, err := s.Store.Work(ctx) // after reading the hints, whose runs were ready before
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
