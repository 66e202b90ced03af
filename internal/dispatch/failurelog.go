package dispatch

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// FailureLogInterval is the minimum interval between equal messages about Redis.
const FailureLogInterval = 10 * time.Second

// FailureLog remembers which messages were logged lately. The zero value is ready for use.
type FailureLog struct {
	mu         sync.Mutex
	lastLogged map[string]time.Time // by message
}

// LogFailure logs what could not be done with Redis. While Redis is away, everything fails that is
// tried, often several times a second, so a message is logged at most once per FailureLogInterval.
func (b *Bus) LogFailure(ctx context.Context, message string, err error, attrs ...any) {
	if b.failures.IsNew(message + fmt.Sprint(attrs...)) {
		b.log.WarnContext(ctx, message, append(attrs, "error", err)...) //nolint:sloglint // the messages of callers are constants
	}
}

// IsNew reports whether a message was not logged lately, and remembers it.
func (f *FailureLog) IsNew(message string) bool {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.lastLogged, func(_ string, at time.Time) bool { return now.Sub(at) >= FailureLogInterval })
	if _, lately := f.lastLogged[message]; lately {
		return false
	}
	if f.lastLogged == nil {
		f.lastLogged = map[string]time.Time{}
	}
	f.lastLogged[message] = now
	return true
}
