package assembly

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a ping may take, and the interval between pings.
const (
	redisPingTimeout  = 3 * time.Second
	redisPingInterval = 2 * time.Second
)

// watchRedis logs each time that Redis cannot be reached any more, also at the start, and when it
// can be reached again, until ctx ends. Nothing waits for Redis: without it nothing is lost, but
// workers hear of work late.
func watchRedis(ctx context.Context, client *redis.Client, log *slog.Logger) {
	log = log.With("redis", client.Options().Addr)
	tick := time.NewTicker(redisPingInterval)
	defer tick.Stop()
	for reached := true; ; {
		err := pingRedis(ctx, client)
		switch {
		case ctx.Err() != nil:
			return
		case reached && err != nil:
			log.WarnContext(ctx, "Redis can't be reached; nothing is lost, and work continues more slowly until it is back", "error", err)
		case !reached && err == nil:
			log.InfoContext(ctx, "Redis can be reached again")
		}
		reached = err == nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func pingRedis(ctx context.Context, client *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, redisPingTimeout)
	defer cancel()
	return client.Ping(ctx).Err()
}
