package store

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// definitions remembers the definitions that were last asked for, by their versions: each
// claim asks for one. A version never changes, but whoever puts agents makes ever more of
// them. It is safe for concurrent use.
type definitions struct {
	mu    sync.Mutex
	held  *simplelru.LRU[string, []byte]
	bytes int
}

// What is remembered is bounded.
const (
	definitionsMost  = 10_000   // versions
	definitionsBytes = 32 << 20 // of all of them
)

func newDefinitions() *definitions {
	d := &definitions{}
	forgotten := func(_ string, body []byte) { d.bytes -= len(body) }
	d.held, _ = simplelru.NewLRU(definitionsMost, forgotten) // it fails for a size of 0
	return d
}

// of gives a definition that is remembered. Nobody may change it.
func (d *definitions) of(version string) (body []byte, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held.Get(version)
}

// keep takes in a definition, which nobody changes from now on.
func (d *definitions) keep(version string, body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held.Remove(version)
	d.held.Add(version, body)
	for d.bytes += len(body); d.bytes > definitionsBytes; {
		d.held.RemoveOldest()
	}
}
