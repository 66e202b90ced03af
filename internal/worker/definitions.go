package worker

import (
	"slices"
	"sync"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/tool"
)

const (
	// maxDefinitions is the size at which the cache of definitions is emptied, and maxDefinitionBytes
	// that of their texts.
	maxDefinitions     = 1000
	maxDefinitionBytes = 32 << 20
	// maxToolsets is the same for the toolsets of one definition.
	maxToolsets = 8
)

// definitions caches parsed definitions. A pinned version never changes, and many runs pin the
// same one.
type definitions struct {
	mu     sync.Mutex
	byText map[string]*definition // by the text of the definition
	bytes  int                    // of these texts
}

// definition is a parsed definition with the toolsets that were built for it.
type definition struct {
	*agentdef.Definition

	mu       sync.Mutex
	toolsets []toolsetFor
}

// toolsetFor is the toolset of runs that may spawn the same agents. It is immutable.
type toolsetFor struct {
	agents []tool.Spawnable
	tools  toolset
}

// parse parses a pinned definition, or returns it from the cache.
func (d *definitions) parse(agent string, text []byte) (*definition, error) {
	d.mu.Lock()
	def := d.byText[string(text)]
	d.mu.Unlock()
	if def != nil {
		return def, nil
	}
	parsed, err := agentdef.Parse("pinned definition of "+agent, text)
	if err != nil {
		return nil, err
	}
	def = &definition{Definition: parsed}
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.byText[string(text)]; now != nil { // another run was faster
		return now, nil
	}
	if d.byText == nil || len(d.byText) >= maxDefinitions || d.bytes+len(text) > maxDefinitionBytes {
		d.byText, d.bytes = map[string]*definition{}, 0
	}
	d.byText[string(text)] = def
	d.bytes += len(text)
	return def, nil
}

// cachedToolset returns the toolset that was built before for runs that may spawn these agents.
func (d *definition) cachedToolset(agents []tool.Spawnable) (_ toolset, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.toolsets {
		if slices.Equal(h.agents, agents) {
			return h.tools, true
		}
	}
	return toolset{}, false
}

func (d *definition) cacheToolset(agents []tool.Spawnable, tools toolset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.toolsets) >= maxToolsets {
		d.toolsets = nil
	}
	d.toolsets = append(d.toolsets, toolsetFor{agents, tools})
}
