package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxBlock is how long one read waits in Redis. A connection that is dead but not closed is noticed
// that much later.
const maxBlock = 250 * time.Millisecond

// readMargin is how much longer than its wait a read may take before the connection counts as dead.
const readMargin = 3 * time.Second

// breakOffTimeout bounds two steps after a read is interrupted: Redis closes the connection, and
// then answers which hints it had handed to the read. The caller waits for both. Hints that Redis
// does not report in time are left to TakeOver.
const breakOffTimeout = time.Second

var errConsumer = errors.New("a consumer needs a name")

// Pull reads up to max hints that no consumer of the pool has read yet, in order, and waits up to
// block for the first. With a block of 0 it does not wait. If there are none, it returns no
// deliveries and no error. The deliveries belong to the consumer until [Bus.Done], or until another
// consumer takes them over.
//
// Pull creates the stream and its group if they are missing, so that everything on the stream is
// read, including older entries. If only the group was lost, hints are delivered again. Entries
// that are not hints are deleted and logged.
//
// When ctx ends, Pull returns its error at once, or within two seconds if Redis does not answer. It
// never drops hints that it has read: it returns them instead of the error. Only one Pull of a Bus
// may run at a time.
func (b *Bus) Pull(ctx context.Context, pool, consumer string, max int, block time.Duration) ([]Delivery, error) {
	key, err := b.checkRead(pool, consumer, max)
	if err != nil {
		return nil, fmt.Errorf("pulling: %w", err)
	}
	for deadline := time.Now().Add(block); ; {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("pulling from %s: %w", key, err)
		}
		began := time.Now()
		entries, err := b.readNew(ctx, key, consumer, max, time.Until(deadline))
		switch {
		case err != nil && ctx.Err() != nil:
			return b.recoverBrokenOff(ctx, pool, key, consumer, max, began)
		case isGone(err):
			if err := b.createGroup(ctx, key); err != nil {
				return nil, fmt.Errorf("pulling from %s: %w", key, err)
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("pulling from %s: %w", key, err)
		}
		found := b.parseHints(ctx, pool, entries)
		if len(found) > 0 || len(entries) == 0 && time.Until(deadline) <= 0 {
			return found, nil
		}
	}
}

// checkRead checks the arguments of a read, and returns the key of the stream.
func (b *Bus) checkRead(pool, consumer string, max int) (key string, err error) {
	switch {
	case consumer == "":
		return "", errConsumer
	case max < 1:
		return "", fmt.Errorf("the maximum is %d hints, must be at least 1", max)
	}
	return b.keys.ready(pool)
}

// readNew reads once, and waits at most for block and at most for maxBlock.
func (b *Bus) readNew(ctx context.Context, key, consumer string, max int, block time.Duration) ([]redis.XMessage, error) {
	block = min(block, maxBlock)
	switch {
	case block <= 0:
		block = -1 // the client's value for "don't wait"
	case block < time.Millisecond:
		block = time.Millisecond // 0 is Redis's value for "wait for ever"
	}
	// If the connection breaks, the client may read again. That loses nothing more: the hints of
	// the first read are pending already, for TakeOver.
	streams, err := b.reader.read(ctx, &redis.XReadGroupArgs{
		Group: consumerGroup, Consumer: consumer, Streams: []string{key, ">"}, Count: int64(max), Block: block,
	}, readMargin+block)
	if errors.Is(err, redis.Nil) || err == nil && len(streams) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return streams[0].Messages, nil
}

// idleSlack allows for Redis reporting too long an idle time: it counts milliseconds of a clock
// that it does not read for each command.
const idleSlack = 10 * time.Millisecond

// recoverBrokenOff returns the hints that Redis handed to a read that began at the time began and
// was interrupted. If they are fewer than max, hints that the consumer got just before may be among
// them again.
func (b *Bus) recoverBrokenOff(ctx context.Context, pool, key, consumer string, max int, began time.Time) ([]Delivery, error) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakOffTimeout)
	defer cancel()
	found, err := b.pending(asking, pool, key, consumer, maxPending, func(p redis.XPendingExt) bool { return p.Idle <= time.Since(began)+idleSlack })
	if older := len(found) - max; older > 0 {
		found = found[older:]
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, fmt.Errorf("pulling from %s: %w", key, errors.Join(ctx.Err(), err))
}

// TakeOver reads up to max hints that some consumer, including this one, has read at least minIdle
// ago and not finished. It starts with the oldest, does not wait, and clears away entries that were
// deleted after they were read. Two consumers never take over the same hint within minIdle.
func (b *Bus) TakeOver(ctx context.Context, pool, consumer string, minIdle time.Duration, max int) ([]Delivery, error) {
	key, err := b.checkRead(pool, consumer, max)
	if err != nil {
		return nil, fmt.Errorf("taking over: %w", err)
	}
	var found []Delivery
	for start, done := "0-0", false; !done && len(found) < max; {
		var entries []redis.XMessage
		entries, start, err = b.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: key, Group: consumerGroup, Consumer: consumer, MinIdle: minIdle, Start: start, Count: int64(max - len(found)),
		}).Result()
		if isGone(err) {
			return found, nil
		}
		if err != nil && len(found) == 0 {
			return nil, fmt.Errorf("taking over from %s: %w", key, err)
		}
		if err != nil {
			b.log.WarnContext(ctx, "taking over hints ended early", "stream", key, "error", err)
			return found, nil
		}
		found = append(found, b.parseHints(ctx, pool, entries)...)
		done = start == "0-0"
	}
	return found, nil
}

// Unfinished returns up to max hints that a consumer has read and not finished, the oldest first.
// They still belong to the consumer, as if it had read them just now.
func (b *Bus) Unfinished(ctx context.Context, pool, consumer string, max int) ([]Delivery, error) {
	key, err := b.checkRead(pool, consumer, max)
	if err != nil {
		return nil, fmt.Errorf("listing unfinished hints: %w", err)
	}
	found, err := b.pending(ctx, pool, key, consumer, max, func(redis.XPendingExt) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("listing the unfinished hints of %s on %s: %w", consumer, key, err)
	}
	return found, nil
}

// maxPending bounds the unfinished hints of a consumer that are looked at.
const maxPending = 1_000

// pending returns those of the first max unfinished hints of a consumer that are wanted. For
// TakeOver, the consumer has then read all of these first hints just now.
func (b *Bus) pending(ctx context.Context, pool, key, consumer string, max int, wanted func(redis.XPendingExt) bool) ([]Delivery, error) {
	pending, err := b.client.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: key, Group: consumerGroup, Start: "-", End: "+", Count: int64(max), Consumer: consumer,
	}).Result()
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	chosen := map[string]bool{}
	for _, p := range pending {
		if wanted(p) {
			chosen[p.ID] = true
		}
	}
	if len(chosen) == 0 {
		return nil, nil
	}
	// A worker has no right to XRANGE. This read gives the consumer what it has read already.
	streams, err := b.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: consumerGroup, Consumer: consumer, Streams: []string{key, "0"}, Count: int64(max), Block: -1,
	}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("reading them: %w", err)
	}
	var entries []redis.XMessage
	for _, s := range streams {
		for _, e := range s.Messages {
			if chosen[e.ID] && e.Values != nil { // nil for an entry that was deleted
				entries = append(entries, e)
			}
		}
	}
	return b.parseHints(ctx, pool, entries), nil
}

// createGroup creates the stream's group, and the stream, unless they exist. The group starts
// before the first entry, so that existing entries are read.
func (b *Bus) createGroup(ctx context.Context, key string) error {
	err := b.client.XGroupCreateMkStream(ctx, key, consumerGroup, "0").Err()
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating its consumer group: %w", err)
	}
	return nil
}

// isGone reports whether Redis says that the stream or the group does not exist, or was deleted
// while a read was blocked on it.
func isGone(err error) bool {
	return redis.HasErrorPrefix(err, "NOGROUP") || redis.HasErrorPrefix(err, "UNBLOCKED")
}

// parseHints returns the entries that are hints, and deletes the others from the stream.
func (b *Bus) parseHints(ctx context.Context, pool string, entries []redis.XMessage) []Delivery {
	var found []Delivery
	var garbage []string
	for _, e := range entries {
		h, err := decodeHint(e.Values)
		if err != nil {
			b.log.WarnContext(ctx, "a dispatch entry is not a valid hint and is deleted", "pool", pool, "entry", e.ID, "error", err)
			garbage = append(garbage, e.ID)
			continue
		}
		found = append(found, Delivery{ID: e.ID, Hint: h})
	}
	if err := b.Done(ctx, pool, garbage...); err != nil {
		b.log.WarnContext(ctx, "deleting dispatch entries that are not valid hints failed", "pool", pool, "error", err)
	}
	return found
}
