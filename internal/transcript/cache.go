package transcript

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/coppice-run/coppice/internal/tree"
)

// Cache holds the most recently used transcripts, so that a run which wakes repeatedly reads
// and sends only new messages. Messages are immutable, so a cached transcript is always a valid
// prefix of the current one. It is safe for concurrent use.
type Cache struct {
	mu          sync.Mutex
	transcripts *simplelru.LRU[Key, prefix]
	bytes       int
}

// Key identifies a transcript.
type Key struct {
	Session tree.SessionID
	Task    tree.TaskID
}

// prefix is a transcript up to some message.
type prefix struct {
	messages []tree.Message
	bytes    int
}

// Bounds of the cache. A message counts as messageOverhead, blockOverhead for each of its blocks,
// and its text.
const (
	maxTranscripts  = 10_000   // transcripts
	maxCachedBytes  = 32 << 20 // in total
	messageOverhead = 512
	blockOverhead   = 128 // of a call or a result: the block, its id, and what texts take up besides
)

// NewCache returns an empty cache.
func NewCache() *Cache {
	h := &Cache{}
	forgotten := func(_ Key, p prefix) { h.bytes -= p.bytes }
	h.transcripts, _ = simplelru.NewLRU(maxTranscripts, forgotten) // it fails only for size 0
	return h
}

// Get returns the cached prefix of a transcript. The caller must not change it, but may append
// to it.
func (h *Cache) Get(of Key) []tree.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, _ := h.transcripts.Get(of)
	return slices.Clip(p.messages)
}

// Extend appends the messages that follow a prefix, stores the result and returns it. The
// caller must not change the messages afterwards.
func (h *Cache) Extend(of Key, begins, more []tree.Message) []tree.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, _ := h.transcripts.Get(of)
	if n := len(begins); n == 0 || n != len(p.messages) || &begins[0] != &p.messages[0] {
		p = prefix{slices.Clip(begins), size(begins)}
	}
	// The cached slice may have spare capacity, which no other slice uses.
	p = prefix{append(p.messages, more...), p.bytes + size(more)}
	h.put(of, p)
	return slices.Clip(p.messages)
}

// Put stores a transcript. The caller must not change it afterwards.
func (h *Cache) Put(of Key, messages []tree.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(of, prefix{slices.Clip(messages), size(messages)})
}

// size is the cost of messages in the cache.
func size(messages []tree.Message) (bytes int) {
	for i := range messages {
		blocks := messages[i].Blocks
		bytes += messageOverhead + len(blocks)*blockOverhead + tree.TextBytes(blocks)
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
