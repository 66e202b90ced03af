package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Discard removes hints from a pool's stream that no consumer has read and whose runs are over. ids
// are the first of [Bus.Unread]. A consumer reads the hints for that purpose, because Redis would
// count hints that are deleted unread as lag of the group. If other consumers have read some of ids
// meanwhile, it reads other hints instead. It returns those: they belong to the consumer until
// [Bus.Done], as after a Pull.
func (b *Bus) Discard(ctx context.Context, pool, consumer string, ids []string) ([]Delivery, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	key, err := b.checkRead(pool, consumer, len(ids))
	if err != nil {
		return nil, fmt.Errorf("discarding hints: %w", err)
	}
	if err := b.createGroup(ctx, key); err != nil {
		return nil, fmt.Errorf("discarding hints of %s: %w", key, err)
	}
	streams, err := b.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: consumerGroup, Consumer: consumer, Streams: []string{key, ">"}, Count: int64(len(ids)), Block: -1,
	}).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(streams) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discarding hints of %s: %w", key, err)
	}
	var over []string
	others := slices.DeleteFunc(streams[0].Messages, func(e redis.XMessage) bool {
		found := slices.Contains(ids, e.ID)
		if found {
			over = append(over, e.ID)
		}
		return found
	})
	return b.parseHints(ctx, pool, others), b.Done(ctx, pool, over...)
}
