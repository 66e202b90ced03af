package upstream

import (
	"sync"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// maxConversations bounds the cache.
const maxConversations = 10_000

// ConversationCache remembers, for the life of the process, what models have refused in a
// conversation. A full cache is emptied and fills again. The zero value is empty. It is safe
// for concurrent use.
type ConversationCache[V any] struct {
	mu     sync.Mutex
	values map[conversationKey]V
}

type conversationKey struct {
	model string
	task  tree.TaskID
}

// Get returns the value for the request's conversation with a model, or the zero value.
func (l *ConversationCache[V]) Get(name string, req *model.Request) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[conversationKey{name, req.Task}]
}

// Put stores a value. It stores nothing for a request without a task.
func (l *ConversationCache[V]) Put(name string, req *model.Request, v V) {
	if req.Task.IsZero() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.values == nil || len(l.values) >= maxConversations {
		l.values = map[conversationKey]V{}
	}
	l.values[conversationKey{name, req.Task}] = v
}
