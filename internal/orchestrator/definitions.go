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

// maxVersionsListed bounds the versions of an agent that are listed.
const maxVersionsListed = 100

// ListAgents returns the definitions that apply to a tenant, by name, and the problems with files
// that can't be used.
func (s *Service) ListAgents(ctx context.Context, tenant string) ([]*agentdef.Definition, []agentdef.Problem, error) {
	all, err := s.agents.registryOf(ctx, tenant)
	if err != nil {
		return nil, nil, err
	}
	return all.List(), s.agents.problems(), nil
}

// GetAgent returns a definition and the versions that the tenant has put, the last one first. If no
// version is named, it returns the current definition.
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
	switch {
	case ok && (version == "" || version == def.Version):
		return def, versions, nil
	case version == "":
		return nil, nil, tree.ErrNoAgent.With("%s", name)
	case !agentdef.IsVersion(version): // a database may refuse other texts
		return nil, nil, tree.ErrNoAgent.With("%s in version %s", name, version)
	}
	wasPut, err := s.Store.HasAgentVersion(ctx, tenant, name, version)
	switch {
	case err != nil:
		return nil, nil, err
	case !wasPut:
		return nil, nil, tree.ErrNoAgent.With("%s in version %s", name, version)
	}
	def, err = s.agents.definition(ctx, version)
	return def, versions, err
}

// PutAgent stores a definition and makes it current for the tenant.
func (s *Service) PutAgent(ctx context.Context, tenant, text string) (*agentdef.Definition, error) {
	def, err := agentdef.Parse("definition", []byte(text))
	if err == nil {
		err = def.Fits()
	}
	if err != nil {
		return nil, tree.ErrBadInput.With("%v", err)
	}
	if def.OfPlugin() {
		return nil, tree.ErrBadInput.With("definition:1: name: %q has a colon, which only names of plugin agents may have", def.Name)
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
		s.Logger.InfoContext(ctx, "an agent definition was stored", "tenant", tenant, "agent", def.Name, "version", def.Version)
	}
	return s.agents.definition(ctx, def.Version)
}

// DeleteAgent removes an agent that the tenant has put, and returns the version that was current.
func (s *Service) DeleteAgent(ctx context.Context, tenant, name string) (string, error) {
	if err := checkAgentName(name); err != nil {
		return "", err
	}
	version, err := s.Store.DropAgent(ctx, tenant, name)
	if err == nil {
		s.Logger.InfoContext(ctx, "an agent was deleted", "tenant", tenant, "agent", name, "version", version)
	}
	if def, there := s.agents.fileRegistry().Get(name); there && errors.Is(err, tree.ErrNoAgent) {
		err = tree.ErrNoAgent.With("%s was not stored with PutAgent, so it cannot be deleted; its source is %s", name, def.Source)
	}
	return version, err
}

// maxSuggestedAgents bounds the agents that an error names.
const maxSuggestedAgents = 10

// suggestRoots adds the names of the agents that may be a root to the refusal of an agent.
func (s *Service) suggestRoots(ctx context.Context, tenant, name string, refused error) error {
	return s.suggestAgents(ctx, tenant, name, refused, tree.ErrNotARoot, "root", tree.Mode.MayBeRoot)
}

// suggestSubagents does so with the agents that may be a sub-agent.
func (s *Service) suggestSubagents(ctx context.Context, tenant, name string, refused error) error {
	return s.suggestAgents(ctx, tenant, name, refused, tree.ErrNotSubagent, "sub-agent", tree.Mode.MayBeSpawned)
}

// suggestAgents adds the names of allowed agents to an error that says that an agent does not exist
// (ErrNoAgent) or is not allowed (notAllowed). It returns other errors as they are.
func (s *Service) suggestAgents(ctx context.Context, tenant, name string, refused error, notAllowed *tree.Error, role string, allowed func(tree.Mode) bool) error {
	base := notAllowed
	switch {
	case errors.Is(refused, tree.ErrNoAgent):
		base = tree.ErrNoAgent
	case !errors.Is(refused, notAllowed):
		return refused
	}
	all, err := s.agents.registryOf(ctx, tenant)
	if err != nil {
		return refused
	}
	var names []string
	for _, def := range all.List() {
		if allowed(def.Mode) {
			names = append(names, def.Name)
		}
	}
	if len(names) > maxSuggestedAgents {
		names = append(names[:maxSuggestedAgents], "…")
	}
	return base.With("%s; those that may be a %s: %s", name, role, strings.Join(names, ", "))
}

// checkAgentName refuses a name that no agent can have. Such a name may be no valid text for the
// database.
func checkAgentName(name string) error {
	if !agentdef.IsName(name) {
		return tree.ErrNoAgent.With("%s", name)
	}
	return nil
}
