package dispatch

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// failureLogInterval is the minimum interval between equal messages about Redis.
const failureLogInterval = 10 * time.Second

// failureLog remembers which messages were logged lately.
type failureLog struct {
	mu         sync.Mutex
	lastLogged map[string]time.Time // by message
}

// LogFailure logs what could not be done with Redis. While Redis is away, everything fails that is
// tried, often several times a second, so a message is logged at most once per failureLogInterval.
func (b *Bus) LogFailure(ctx context.Context, message string, err error, attrs ...any) {
	if b.failures.isNew(message+fmt.Sprint(attrs...), time.Now()) {
		b.log.WarnContext(ctx, message, append(attrs, "error", err)...) //nolint:sloglint // the messages of callers are constants
	}
}

// isNew reports whether a message was not logged lately, and remembers it.
func (f *failureLog) isNew(message string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.lastLogged, func(_ string, at time.Time) bool { return now.Sub(at) >= failureLogInterval })
	if _, lately := f.lastLogged[message]; lately {
		return false
	}
	if f.lastLogged == nil {
		f.lastLogged = map[string]time.Time{}
	}
	f.lastLogged[message] = now
	return true
}
