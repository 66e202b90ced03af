package upstream

import (
	"sync"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// maxConversations is of how many conversations is kept what was learned.
const maxConversations = 10_000

// ConversationCache is what models have refused of conversations, for as long as the process lives.
// When there is too much of it all is forgotten, and learned anew. The zero value is empty;
// it may be used by any number of goroutines.
type ConversationCache[V any] struct {
	mu     sync.Mutex
	values map[conversationKey]V
}

type conversationKey struct {
	model string
	task  tree.TaskID
}

// Get gives what was learned of a request's conversation with a model; the zero value if
// that is nothing.
func (l *ConversationCache[V]) Get(name string, req *model.Request) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[conversationKey{name, req.Task}]
}

// Put keeps what was learned. Of one that says no task nothing is kept.
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
