package sandbox

import (
	"fmt"
	"path/filepath"
)

// Options are the command-line options of the sandbox.
type Options struct {
	Sandbox         string   `env:"COPPICE_SANDBOX" enum:"required,best-effort,off," default:"" placeholder:"MODE" help:"What to do where commands can't be confined in every way: required (stop), best-effort (confine them as far as it goes) or off (confine none). By default required for root and in Kubernetes, else best-effort."`
	SandboxReadable []string `env:"COPPICE_SANDBOX_READABLE" placeholder:"PATH,..." help:"Files and directories that commands may read, beside the system's and the workspace."`
	SandboxEnv      []string `env:"COPPICE_SANDBOX_ENV" placeholder:"NAME,..." help:"Variables of this process's environment that commands get, beside those that say nothing about it."`
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
