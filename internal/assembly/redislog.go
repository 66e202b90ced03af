package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/coppice-run/coppice/internal/dispatch"
)

// redisLog routes what the Redis client would write to standard error into the process's logs. While
// Redis is unreachable, each connection repeats its complaint, and it is logged seldom.
type redisLog struct {
	log      *slog.Logger
	failures dispatch.FailureLog
}

func newRedisLog(log *slog.Logger) *redisLog { return &redisLog{log: log} }

// Printf logs a message of the client. By default the client only reports failures.
func (l *redisLog) Printf(ctx context.Context, format string, v ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, v...), "redis: ")
	if l.failures.IsNew(text) {
		l.log.WarnContext(ctx, "the Redis client reports a failure", "error", text)
	}
}
