package worker

import (
	"slices"
	"sync"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/tool"
)

const (
	// definitionsHeld is how many definitions are remembered before all are forgotten.
	definitionsHeld = 1000
	// handedHeld is the same for what the runs of one definition were handed.
	handedHeld = 8
)

// definitions remembers what was read of the definitions that runs pin: a version never
// changes, and many runs pin the same.
type definitions struct {
	mu   sync.Mutex
	read map[string]*definition // by their text
}

// definition is one that runs pin, with what was made of it so far.
type definition struct {
	*agentdef.Definition

	mu     sync.Mutex
	handed []handedTo
}

// handedTo is the tools of runs that may spawn the same agents. They never change.
type handedTo struct {
	agents []tool.Spawnable
	tools  handed
}

// parse reads a pinned definition of an agent.
func (d *definitions) parse(agent string, text []byte) (*definition, error) {
	d.mu.Lock()
	def := d.read[string(text)]
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
	if d.read == nil || len(d.read) >= definitionsHeld {
		d.read = map[string]*definition{}
	}
	d.read[string(text)] = def
	return def, nil
}

// handedOver gives the tools that runs which may spawn these agents were handed before.
func (d *definition) handedOver(agents []tool.Spawnable) (_ handed, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.handed {
		if slices.Equal(h.agents, agents) {
			return h.tools, true
		}
	}
	return handed{}, false
}

func (d *definition) remember(agents []tool.Spawnable, tools handed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.handed) >= handedHeld {
		d.handed = nil
	}
	d.handed = append(d.handed, handedTo{agents, tools})
}
