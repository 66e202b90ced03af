package store

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// definitionCache caches the definitions that were last used, by version: each claim asks for one.
// A version never changes, but each put agent adds one, so the size is limited. It is safe for
// concurrent use.
type definitionCache struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[string, []byte]
	bytes int
}

// Limits of the cache.
const (
	maxDefinitions     = 10_000   // versions
	maxDefinitionBytes = 32 << 20 // of all of them
)

func newDefinitionCache() *definitionCache {
	d := &definitionCache{}
	forgotten := func(_ string, body []byte) { d.bytes -= len(body) }
	d.lru, _ = simplelru.NewLRU(maxDefinitions, forgotten) // it fails for a size of 0
	return d
}

// get gives a cached definition. The caller must not change it.
func (d *definitionCache) get(version string) (body []byte, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lru.Get(version)
}

// put keeps a definition, which must not change any more.
func (d *definitionCache) put(version string, body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lru.Remove(version)
	d.lru.Add(version, body)
	for d.bytes += len(body); d.bytes > maxDefinitionBytes; {
		d.lru.RemoveOldest()
	}
}
