package transcript

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/coppice-run/coppice/internal/tree"
)

// Cache remembers the transcripts that were last used, so that of a run that wakes again and
// again only what is new is read and sent. Messages never change, nor does what they tell
// of: what is remembered is how the transcript begins, whatever comes after it. It is safe
// for concurrent use.
type Cache struct {
	mu          sync.Mutex
	transcripts *simplelru.LRU[Key, prefix]
	bytes       int
}

// Key says whose transcript it is.
type Key struct {
	Session tree.SessionID
	Task    tree.TaskID
}

// prefix is a transcript up to some message.
type prefix struct {
	messages []tree.Message
	bytes    int
}

// What is remembered is bounded; a message counts for messageBytes beside its text.
const (
	maxTranscripts  = 10_000   // transcripts
	maxCachedBytes  = 32 << 20 // of all of them
	messageOverhead = 512
)

// NewCache remembers nothing yet.
func NewCache() *Cache {
	h := &Cache{}
	forgotten := func(_ Key, p prefix) { h.bytes -= p.bytes }
	h.transcripts, _ = simplelru.NewLRU(maxTranscripts, forgotten) // it fails for a size of 0
	return h
}

// Get gives what is remembered of a transcript. Nobody may change it; it can be
// appended to.
func (h *Cache) Get(of Key) []tree.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, _ := h.transcripts.Get(of)
	return slices.Clip(p.messages)
}

// Extend takes in what follows on the beginning of a transcript, which nobody changes from now on
// either, and gives both.
func (h *Cache) Extend(of Key, begins, more []tree.Message) []tree.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, _ := h.transcripts.Get(of)
	if n := len(begins); n == 0 || n != len(p.messages) || &begins[0] != &p.messages[0] {
		p = prefix{slices.Clip(begins), size(begins)}
	}
	// Behind what is remembered there may be room, in which nobody else looks or writes.
	p = prefix{append(p.messages, more...), p.bytes + size(more)}
	h.put(of, p)
	return slices.Clip(p.messages)
}

// Put takes in a transcript, which nobody changes from now on.
func (h *Cache) Put(of Key, messages []tree.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(of, prefix{slices.Clip(messages), size(messages)})
}

// size is what messages count for.
func size(messages []tree.Message) (bytes int) {
	for i := range messages {
		bytes += messageOverhead + tree.TextBytes(messages[i].Blocks)
	}
	return bytes
}

func (h *Cache) put(of Key, now prefix) {
	h.transcripts.Remove(of)
	h.transcripts.Add(of, now)
	for h.bytes += now.bytes; h.bytes > maxCachedBytes; {
		h.transcripts.RemoveOldest()
	}
}
