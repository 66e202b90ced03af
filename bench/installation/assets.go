package installation

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed scenario.yaml agents
var assets embed.FS

// writeAssets writes the scenario and the agents, and creates a workspace.
func (i *Installation) writeAssets() error {
	if err := os.CopyFS(i.Dir, assets); err != nil {
		return fmt.Errorf("writing the scenario: %w", err)
	}
	if err := os.Mkdir(i.workspace(), 0o755); err != nil {
		return fmt.Errorf("making the workspace: %w", err)
	}
	return nil
}

func (i *Installation) workspace() string { return filepath.Join(i.Dir, "workspace") }

// WriteTexts writes files to the workspace, all different, for the prompts "source N" and
// "noise N".
func (i *Installation) WriteTexts(ctx context.Context) error {
	source, err := sources(ctx)
	if err != nil {
		return fmt.Errorf("looking for source: %w", err)
	}
	for folder, text := range map[string]func(n int) []byte{
		"source": func(n int) []byte { return source[n] },
		"noise":  func(n int) []byte { return noise(uint64(n)) },
	} {
		folder = filepath.Join(i.workspace(), folder)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("making the workspace: %w", err)
		}
		for n := range files {
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(n+1, ".txt")), text(n), 0o600); err != nil {
				return fmt.Errorf("writing the workspace: %w", err)
			}
		}
	}
	return nil
}

// Scenario returns the scenario that plays the model.
func Scenario() ([]byte, error) { return fs.ReadFile(assets, "scenario.yaml") }
