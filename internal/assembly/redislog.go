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

// redisLogInterval is the minimum interval between equal messages of the Redis client. While Redis
// is unreachable, each connection repeats its complaint.
const redisLogInterval = 10 * time.Second

// redisLog routes what the Redis client would write to standard error into the process's logs.
type redisLog struct {
	log *slog.Logger

	mu         sync.Mutex
	lastLogged map[string]time.Time // by message
}

func newRedisLog(log *slog.Logger) *redisLog {
	return &redisLog{log: log, lastLogged: map[string]time.Time{}}
}

// Printf logs a message of the client. By default the client only reports failures.
func (l *redisLog) Printf(ctx context.Context, format string, v ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, v...), "redis: ")
	if l.isNew(text) {
		l.log.WarnContext(ctx, "the Redis client reports a failure", "error", text)
	}
}

// isNew reports whether a message was not logged lately, and remembers it.
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
