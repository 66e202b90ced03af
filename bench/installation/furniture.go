package installation

import (
	"embed"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

//go:embed scenario.yaml agents
var furniture embed.FS

// furnish writes what the processes read: the scenario, the agents, and a workspace
// with files none of which is like another.
func (i *Installation) furnish() error {
	if err := os.CopyFS(i.Dir, furniture); err != nil {
		return fmt.Errorf("writing the scenario: %w", err)
	}
	workspace := filepath.Join(i.Dir, "workspace")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return fmt.Errorf("making the workspace: %w", err)
	}
	for n := range files {
		if err := os.WriteFile(filepath.Join(workspace, fmt.Sprint(n+1, ".txt")), prose(uint64(n)), 0o600); err != nil {
			return fmt.Errorf("writing the workspace: %w", err)
		}
	}
	return nil
}

// prose is text of fileBytes that no compression makes nothing of.
func prose(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // it is to be the same each time
	var text []byte
	for len(text) < fileBytes {
		for range 10 {
			text = fmt.Appendf(text, "%06x ", r.IntN(1<<24))
		}
		text = append(text, '\n')
	}
	text = text[:fileBytes-1]
	return append(text, '\n')
}

// Scenario is what plays the model.
func Scenario() ([]byte, error) { return fs.ReadFile(furniture, "scenario.yaml") }
