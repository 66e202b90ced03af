package cli

import (
	"cmp"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/model/provider"
	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/sandbox"
)

// localFlags configure an installation in this process, and what its agents may do.
type localFlags struct {
	files
	reachFlags
	mcpFlags
	provider.Flags
	sandbox.Options
	hookFlags
	assembly.RunLimitFlags
	Redact redact.Flags `embed:""`
}

// checkReach refuses invalid values of the flags that say what agents and callbacks may reach.
func (f *localFlags) checkReach(a *app) error {
	if _, err := outbound.ParseDestinations(f.FetchAllow); err != nil {
		return usagef("--fetch-allow: %w", err)
	}
	if _, err := callback.New(f.callbacks(a)); err != nil {
		return usagef("--callback-hosts: %w", err)
	}
	for _, path := range f.SandboxReadable {
		if err := isFile("--sandbox-readable", path); err != nil {
			return err
		}
	}
	return nil
}

// devConfig reads the files that the flags name, and returns the configuration without its
// directories.
func (f *localFlags) devConfig(a *app, m *instruments) (assembly.Dev, provider.Choice, error) {
	if err := cmp.Or(f.check(), f.checkReach(a)); err != nil {
		return assembly.Dev{}, provider.Choice{}, err
	}
	chosen, err := a.chooseModel(f.Flags, m)
	if err != nil {
		return assembly.Dev{}, chosen, err
	}
	hooks, err := f.hooks()
	if err != nil {
		return assembly.Dev{}, chosen, err
	}
	servers, err := f.servers(a)
	if err != nil {
		return assembly.Dev{}, chosen, err
	}
	limits, err := sessionLimits(f.RunLimitFlags)
	if err != nil {
		return assembly.Dev{}, chosen, err
	}
	return assembly.Dev{
		Limits: limits, Files: f.assemblyFiles(), Model: chosen.Model, Limiter: chosen.Limiter, MCP: servers,
		Hooks: hooks, DefinitionHooks: f.DefinitionHooks, Callbacks: f.callbacks(a),
		FetchAllow: f.FetchAllow, BashNetwork: f.BashNetwork, Sandbox: f.Options,
		Secrets: m.secrets, Logger: m.Logger, Telemetry: m.Telemetry,
	}, chosen, nil
}
