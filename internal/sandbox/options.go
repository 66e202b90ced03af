package sandbox

import (
	"fmt"
	"path/filepath"
)

// Options are the command-line options of the sandbox.
type Options struct {
	Sandbox         string   `env:"COPPICE_SANDBOX" enum:"required,best-effort,off," default:"" placeholder:"MODE" help:"What to do if commands cannot be fully sandboxed: required (exit), best-effort (sandbox as far as possible) or off (no sandbox). Default: required for root and in Kubernetes, otherwise best-effort."`
	SandboxReadable []string `env:"COPPICE_SANDBOX_READABLE" placeholder:"PATH,..." help:"Files and directories that commands can read, in addition to the system's and the workspace."`
	SandboxEnv      []string `env:"COPPICE_SANDBOX_ENV" placeholder:"NAME,..." help:"Environment variables of this process to pass to commands, in addition to the harmless ones."`
}

// Config returns the configuration for a process with this environment and workspace.
func (o Options) Config(environ []string, workspace string) (Config, error) {
	mode, err := ParseMode(o.Sandbox)
	if err != nil {
		return Config{}, err
	}
	c := Config{Mode: mode, Environ: Environ(environ, o.SandboxEnv)}
	if c.Workspace, err = filepath.Abs(workspace); err != nil {
		return Config{}, fmt.Errorf("finding the workspace: %w", err)
	}
	for _, path := range o.SandboxReadable {
		if path, err = filepath.Abs(path); err != nil {
			return Config{}, fmt.Errorf("finding what commands may read: %w", err)
		}
		c.Readable = append(c.Readable, path)
	}
	return c, nil
}
