package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
)

// redisSaysAgain is how long the Redis client is not heard again with the same text: a
// Redis that is away makes each connection complain, again and again.
const redisLogInterval = 10 * time.Second

// redisLog takes what the Redis client would write to standard error by itself into the
// process's logs.
type redisLog struct {
	log *slog.Logger

	mu         sync.Mutex
	lastLogged map[string]time.Time // lately
}

func newRedisLog(log *slog.Logger) *redisLog {
	return &redisLog{log: log, lastLogged: map[string]time.Time{}}
}

// Printf logs what the client says, which by default is only what went wrong.
func (l *redisLog) Printf(ctx context.Context, format string, v ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, v...), "redis: ")
	if l.isNew(text) {
		l.log.WarnContext(ctx, "the Redis client reports a failure", "error", text)
	}
}

// isNew reports whether a text was not said lately, and remembers it.
func (l *redisLog) isNew(text string) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.lastLogged, func(_ string, at time.Time) bool { return now.Sub(at) >= redisLogInterval })
	if _, lately := l.lastLogged[text]; lately {
		return false
	}
	l.lastLogged[text] = now
	return true
}
