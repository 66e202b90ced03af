package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxBlock is how long Redis is asked to wait at a time: a link that is dead but not
// closed is noticed that much later.
const maxBlock = 250 * time.Millisecond

// readMargin is how much longer than asked for an answer may take before the link
// counts as dead.
const readMargin = 3 * time.Second

// breakOffTimeout is how long Redis may take to close the connection of a read that is broken off, and
// then to say what it had handed to it: who ends waits for that. What it does not say in time,
// others take over.
const breakOffTimeout = time.Second

var errConsumer = errors.New("a consumer needs a name")

// Pull reads up to max hints that no consumer of the pool has read yet, in their
// order, and waits up to block for the first; no time: it only looks. Nothing to
// read is no error: there are no deliveries then. What it returns is the
// consumer's until [Bus.Done], or until another takes it over.
//
// It makes the stream and its group where they are missing, so that everything on
// the stream is read, even what was announced before; if only the group was lost,
// hints come again. Entries that are no hints are deleted and logged. When ctx
// ends, Pull returns its error at once, or within two seconds if Redis says nothing, but never
// instead of hints it has read. One Pull of a Bus goes on at a time.
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

// checkRead checks what Pull and TakeOver are given, and names the stream.
func (b *Bus) checkRead(pool, consumer string, max int) (key string, err error) {
	switch {
	case consumer == "":
		return "", errConsumer
	case max < 1:
		return "", fmt.Errorf("up to %d hints, need at least 1", max)
	}
	return b.keys.ready(pool)
}

// readNew reads once, waiting no longer than block and no longer than blockAtOnce.
func (b *Bus) readNew(ctx context.Context, key, consumer string, max int, block time.Duration) ([]redis.XMessage, error) {
	block = min(block, maxBlock)
	switch {
	case block <= 0:
		block = -1 // the client's word for "don't wait"
	case block < time.Millisecond:
		block = time.Millisecond // 0 would be Redis's word for "forever"
	}
	// If the link breaks, the client may read again. That loses nothing more: what
	// the first read was given is pending already, for TakeOver.
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

// idleSlack is how much longer than it is Redis may say that a hint has been somebody's: it
// counts milliseconds of a clock that it does not look at for each command.
const idleSlack = 10 * time.Millisecond

// recoverBrokenOff gives what Redis has handed to a read of up to max hints that has begun at a time and
// was broken off. If that is fewer, what came to the consumer just before may be among it again.
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

// TakeOver reads up to max hints that some consumer, this one included, has read
// minIdle ago or earlier and not finished. It starts with the oldest, does not
// wait, and clears away what has been deleted since it was read. Two consumers
// never take the same hint over within minIdle.
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
			b.log.WarnContext(ctx, "taking over ended early", "stream", key, "error", err)
			return found, nil
		}
		found = append(found, b.parseHints(ctx, pool, entries)...)
		done = start == "0-0"
	}
	return found, nil
}

// Unfinished gives up to max hints that a consumer has read and not finished, those read first
// before others. They stay the consumer's.
func (b *Bus) Unfinished(ctx context.Context, pool, consumer string, max int) ([]Delivery, error) {
	key, err := b.checkRead(pool, consumer, max)
	if err != nil {
		return nil, fmt.Errorf("looking for what is left: %w", err)
	}
	found, err := b.pending(ctx, pool, key, consumer, max, func(redis.XPendingExt) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("looking for what %s has left on %s: %w", consumer, key, err)
	}
	return found, nil
}

// maxPending is how many hints are looked at that a consumer has read and not finished.
const maxPending = 1_000

// pending gives hints that a consumer has read and not finished: of the first max those that
// are wanted.
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
	pipe := b.client.Pipeline()
	var found []*redis.XMessageSliceCmd
	for _, p := range pending {
		if wanted(p) {
			found = append(found, pipe.XRange(ctx, key, p.ID, p.ID))
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("reading them: %w", err)
	}
	var entries []redis.XMessage
	for _, one := range found {
		entries = append(entries, one.Val()...) // none of one that was deleted
	}
	return b.parseHints(ctx, pool, entries), nil
}

// createGroup makes the stream's group, and the stream, unless they are there.
// The group starts before the first entry: what came before it is still to be read.
func (b *Bus) createGroup(ctx context.Context, key string) error {
	err := b.client.XGroupCreateMkStream(ctx, key, consumerGroup, "0").Err()
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making its group: %w", err)
	}
	return nil
}

// isGone reports whether Redis says that there is no such stream or group, or no
// longer while a read was blocked on it.
func isGone(err error) bool {
	return redis.HasErrorPrefix(err, "NOGROUP") || redis.HasErrorPrefix(err, "UNBLOCKED")
}

// parseHints keeps the entries that are hints, and takes the others off the stream.
func (b *Bus) parseHints(ctx context.Context, pool string, entries []redis.XMessage) []Delivery {
	var found []Delivery
	var garbage []string
	for _, e := range entries {
		h, err := decodeHint(e.Values)
		if err != nil {
			b.log.WarnContext(ctx, "a dispatch entry is no hint", "pool", pool, "entry", e.ID, "error", err)
			garbage = append(garbage, e.ID)
			continue
		}
		found = append(found, Delivery{ID: e.ID, Hint: h})
	}
	if err := b.Done(ctx, pool, garbage...); err != nil {
		b.log.WarnContext(ctx, "deleting dispatch entries that are no hints failed", "pool", pool, "error", err)
	}
	return found
}
