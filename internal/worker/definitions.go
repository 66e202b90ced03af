package worker

import (
	"sync"

	"github.com/coppice-run/coppice/internal/agentdef"
)

// definitionsHeld is how many definitions are remembered before all are forgotten.
const definitionsHeld = 1000

// definitions remembers what was read of the definitions that runs pin: a version never
// changes, and many runs pin the same.
type definitions struct {
	mu   sync.Mutex
	read map[string]*agentdef.Definition // by their text
}

// parse reads a pinned definition of an agent.
func (d *definitions) parse(agent string, text []byte) (*agentdef.Definition, error) {
	d.mu.Lock()
	def := d.read[string(text)]
	d.mu.Unlock()
	if def != nil {
		return def, nil
	}
	def, err := agentdef.Parse("pinned definition of "+agent, text)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.read == nil || len(d.read) >= definitionsHeld {
		d.read = map[string]*agentdef.Definition{}
	}
	d.read[string(text)] = def
	return def, nil
}
