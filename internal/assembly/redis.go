package assembly

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Timeouts that keep an unreachable Redis from blocking anything for long, unless the URL has
// others.
const (
	redisDialTimeout  = 2 * time.Second
	redisWriteTimeout = 2 * time.Second
)

// ErrRedisURL contains neither the URL nor the parser's message: any part of them may be a
// password that is written wrongly.
var ErrRedisURL = errors.New("the Redis URL is not valid: expected a URL like redis://user:password@host:6379/0, or rediss://, or unix://user:password@/path; in a user or a password / is written as %2F, # as %23, ? as %3F, @ as %40, : as %3A, % as %25")

// OpenRedis creates a client for a Redis URL. It does not connect yet.
func OpenRedis(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil || strings.Contains(url, "#") {
		return nil, ErrRedisURL
	}
	options.DialTimeout = cmp.Or(options.DialTimeout, redisDialTimeout)
	options.WriteTimeout = cmp.Or(options.WriteTimeout, redisWriteTimeout)
	options.ContextTimeoutEnabled = true
	// Identifying the client would need Redis permissions that workers do not need otherwise.
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}
