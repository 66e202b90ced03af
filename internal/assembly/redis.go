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
	redisPingInterval = time.Second
)

// watchRedisAtStart logs if Redis cannot be reached at the start, and again when it can be
// reached. Nothing waits for Redis: without it nothing is lost, but with several replicas workers
// hear of work late.
func watchRedisAtStart(ctx context.Context, client *redis.Client, log *slog.Logger) {
	err := pingRedis(ctx, client)
	if err == nil || ctx.Err() != nil {
		return
	}
	log = log.With("redis", client.Options().Addr)
	log.WarnContext(ctx, "Redis can't be reached; nothing is lost, but several orchestrators may not hand out work until it is back", "error", err)
	tick := time.NewTicker(redisPingInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if pingRedis(ctx, client) == nil {
			log.InfoContext(ctx, "Redis can be reached again")
			return
		}
	}
}

func pingRedis(ctx context.Context, client *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, redisPingTimeout)
	defer cancel()
	return client.Ping(ctx).Err()
}
