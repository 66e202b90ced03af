package installation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries are our programs, built as for a release.
type Binaries struct {
	Coppice, Orchestrator, Worker string

	made string // directory to remove
}

// Build builds the programs with the dependency versions of their own module, not with those of
// the benchmarks.
func Build(ctx context.Context) (*Binaries, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coppice-run/coppice")
	list.Stderr = os.Stderr
	root, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("looking for the module: %w", err)
	}
	dir, err := os.MkdirTemp("", "coppice-bench-bin-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", dir+string(filepath.Separator), "./cmd/...")
	build.Dir, build.Env = strings.TrimSpace(string(root)), append(os.Environ(), "CGO_ENABLED=0")
	b := Built(dir)
	b.made = dir
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("building: %w\n%s", err, bytes.TrimSpace(out)), b.Remove())
	}
	return b, nil
}

// Built returns programs that were built before.
func Built(dir string) *Binaries {
	at := func(name string) string { return filepath.Join(dir, name) }
	return &Binaries{Coppice: at("coppice"), Orchestrator: at("orchestrator"), Worker: at("worker")}
}

// Remove deletes the programs, if Build has built them.
func (b *Binaries) Remove() error {
	if b.made == "" {
		return nil
	}
	return os.RemoveAll(b.made)
}
