package orchestrator

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// maxVersionsListed is how many versions of an agent are listed at most.
const maxVersionsListed = 100

// ListAgents lists the definitions that count for a tenant, by name, and the files
// that can't be used.
func (s *Service) ListAgents(ctx context.Context, tenant string) ([]*agentdef.Definition, []agentdef.Problem, error) {
	all, err := s.agents.registryOf(ctx, tenant)
	if err != nil {
		return nil, nil, err
	}
	return all.List(), s.agents.problems(), nil
}

// GetAgent reads a definition: a version that the tenant has put, or the one that
// counts; and the versions that were put, the last one first.
func (s *Service) GetAgent(ctx context.Context, tenant, name, version string) (*agentdef.Definition, []store.AgentVersion, error) {
	if err := checkAgentName(name); err != nil {
		return nil, nil, err
	}
	all, err := s.agents.registryOf(ctx, tenant)
	if err != nil {
		return nil, nil, err
	}
	versions, err := s.Store.AgentVersions(ctx, tenant, name, maxVersionsListed)
	if err != nil {
		return nil, nil, err
	}
	def, ok := all.Get(name)
	wasPut := slices.ContainsFunc(versions, func(v store.AgentVersion) bool { return v.Version == version })
	switch {
	case ok && (version == "" || version == def.Version):
		return def, versions, nil
	case wasPut:
		def, err = s.agents.definition(ctx, version)
		return def, versions, err
	case ok:
		return nil, nil, tree.ErrNoAgent.With("%s in version %s", name, version)
	}
	return nil, nil, tree.ErrNoAgent.With("%s", name)
}

// PutAgent keeps a definition and makes it the one that counts for the tenant.
func (s *Service) PutAgent(ctx context.Context, tenant, text string) (*agentdef.Definition, error) {
	def, err := agentdef.Parse("definition", []byte(text))
	if err == nil {
		err = def.Fits()
	}
	if err != nil {
		return nil, tree.ErrBadInput.With("%v", err)
	}
	if def.OfPlugin() {
		return nil, tree.ErrBadInput.With("definition:1: name: %q has a colon, which only agents of plugins have", def.Name)
	}
	now, err := s.Store.TenantAgents(ctx, tenant)
	if err != nil {
		return nil, err
	}
	this := store.AgentVersion{Name: def.Name, Version: def.Version}
	if !slices.Contains(now, this) {
		if err := s.Store.PutAgent(ctx, tenant, this, def.Marshal()); err != nil {
			return nil, err
		}
		s.Logger.InfoContext(ctx, "an agent was put", "tenant", tenant, "agent", def.Name, "version", def.Version)
	}
	return s.agents.definition(ctx, def.Version)
}

// DeleteAgent takes away an agent that the tenant has put, and gives the version that
// counted.
func (s *Service) DeleteAgent(ctx context.Context, tenant, name string) (string, error) {
	if err := checkAgentName(name); err != nil {
		return "", err
	}
	version, err := s.Store.DropAgent(ctx, tenant, name)
	if err == nil {
		s.Logger.InfoContext(ctx, "an agent was deleted", "tenant", tenant, "agent", name, "version", version)
	}
	if def, there := s.agents.fileRegistry().Get(name); there && errors.Is(err, tree.ErrNoAgent) {
		err = tree.ErrNoAgent.With("%s was not put, and only that can be deleted; its source is %s", name, def.Source)
	}
	return version, err
}

// maxSuggestedAgents is how many agents a refusal names.
const maxSuggestedAgents = 10

// suggestRoots adds to the refusal of an agent which ones may be a root instead.
func (s *Service) suggestRoots(ctx context.Context, tenant, name string, refused error) error {
	return s.suggestAgents(ctx, tenant, name, refused, tree.ErrNotARoot, "root", agentdef.Mode.Root)
}

// suggestSubagents adds which ones may be a sub-agent.
func (s *Service) suggestSubagents(ctx context.Context, tenant, name string, refused error) error {
	return s.suggestAgents(ctx, tenant, name, refused, tree.ErrNotSubagent, "sub-agent", agentdef.Mode.Spawnable)
}

// suggestAgents adds to the refusal of an agent, which there is not or may not be one, which others may.
func (s *Service) suggestAgents(ctx context.Context, tenant, name string, refused error, not *tree.Error, one string, may func(agentdef.Mode) bool) error {
	as := not
	switch {
	case errors.Is(refused, tree.ErrNoAgent):
		as = tree.ErrNoAgent
	case !errors.Is(refused, not):
		return refused
	}
	all, err := s.agents.registryOf(ctx, tenant)
	if err != nil {
		return refused
	}
	var names []string
	for _, def := range all.List() {
		if may(def.Mode) {
			names = append(names, def.Name)
		}
	}
	if len(names) > maxSuggestedAgents {
		names = append(names[:maxSuggestedAgents], "…")
	}
	return as.With("%s; those that may be a %s: %s", name, one, strings.Join(names, ", "))
}

// checkAgentName refuses a name that no agent can have before the database is asked for it,
// which may not take it as text.
func checkAgentName(name string) error {
	if !agentdef.IsName(name) {
		return tree.ErrNoAgent.With("%s", name)
	}
	return nil
}
