package worker

import (
	"slices"
	"sync"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/tool"
)

const (
	// definitionsHeld is how many definitions are remembered before all are forgotten.
	maxDefinitions = 1000
	// handedHeld is the same for what the runs of one definition were handed.
	maxToolsets = 8
)

// definitions remembers what was read of the definitions that runs pin: a version never
// changes, and many runs pin the same.
type definitions struct {
	mu     sync.Mutex
	byText map[string]*definition // by their text
}

// definition is one that runs pin, with what was made of it so far.
type definition struct {
	*agentdef.Definition

	mu       sync.Mutex
	toolsets []toolsetFor
}

// handedTo is the tools of runs that may spawn the same agents. They never change.
type toolsetFor struct {
	agents []tool.Spawnable
	tools  toolset
}

// parse reads a pinned definition of an agent.
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
	if d.byText == nil || len(d.byText) >= maxDefinitions {
		d.byText = map[string]*definition{}
	}
	d.byText[string(text)] = def
	return def, nil
}

// handedOver gives the tools that runs which may spawn these agents were handed before.
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
