package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/agentdef"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// sourceAPI is the source of definitions that clients put.
const sourceAPI = "api"

// filePollInterval is how often the files with definitions are read.
const filePollInterval = time.Second

// Bounds of the caches. A cache that is full is emptied.
const (
	maxCachedTenants     = 1000
	maxCachedDefinitions = 10_000

	maxCachedDefinitionBytes = 32 << 20 // of their texts
)

// agentCache caches definitions of agents: those of files as they were last read, and those that
// are stored. Which version of a tenant's agent is current is read from the database each time, or
// checked by the commit that depends on it. So a change at one replica applies at all replicas at
// once.
type agentCache struct {
	store        *store.Store
	files        *agentdef.Library  // only used by readFiles
	lastRead     *agentdef.Registry // likewise: what the files contained
	refused      []agentdef.Problem // likewise: of that, what the store has refused
	log          *slog.Logger
	mu           sync.Mutex // guards the fields below
	base         *agentdef.Registry
	fileProblems []agentdef.Problem
	merged       map[string]mergedRegistry        // by tenant
	snapshots    map[string]*store.AgentsSnapshot // the last snapshot of each tenant
	definitions  map[string]*agentdef.Definition  // by version

	definitionBytes int // of the texts of definitions
}

// mergedRegistry is the definitions of files, overridden by those of a tenant.
type mergedRegistry struct {
	base     *agentdef.Registry
	versions []store.AgentVersion
	registry *agentdef.Registry
}

func newAgentCache(c Config) *agentCache {
	return &agentCache{
		store: c.Store, files: c.Agents, log: c.Logger, base: agentdef.Builtin(),
		merged: map[string]mergedRegistry{}, definitions: map[string]*agentdef.Definition{}, snapshots: map[string]*store.AgentsSnapshot{},
	}
}

// pollFiles reads the files regularly until ctx ends.
func (a *agentCache) pollFiles(ctx context.Context) error {
	tick := time.NewTicker(filePollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := a.readFiles(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "reading agent definitions failed", "error", err)
		}
	}
}

// readFiles reads the files. Their definitions apply once all of them are stored, because tasks pin
// stored versions. One whose version belongs to another definition is not used.
func (a *agentCache) readFiles(ctx context.Context) error {
	now, problems := a.files.Read()
	a.logProblems(ctx, slices.Concat(problems, a.refused))
	before := a.fileRegistry()
	if now == a.lastRead {
		return nil
	}
	var usable []*agentdef.Definition
	var refused []agentdef.Problem
	for _, def := range now.List() {
		err := a.store.PutAgentVersion(ctx, def.Name, def.Version, def.Marshal())
		if errors.Is(err, tree.ErrBadInput) {
			refused = append(refused, agentdef.Problem{Source: def.Source, Err: err})
			continue
		}
		if err != nil {
			return fmt.Errorf("storing the definition of %s: %w", def.Name, err)
		}
		usable = append(usable, def)
		if old, ok := before.Get(def.Name); !ok || old.Version != def.Version {
			a.log.InfoContext(ctx, "an agent definition was loaded", "agent", def.Name, "version", def.Version, "source", def.Source)
		}
	}
	for _, old := range before.List() {
		if _, ok := now.Get(old.Name); !ok {
			a.log.InfoContext(ctx, "an agent definition was removed", "agent", old.Name, "source", old.Source)
		}
	}
	base, err := agentdef.NewRegistry(usable...)
	if err != nil {
		return err
	}
	a.lastRead, a.refused = now, refused
	a.logProblems(ctx, slices.Concat(problems, refused))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.base = base
	return nil
}

// logProblems logs problems with files that were not there at the last read.
func (a *agentCache) logProblems(ctx context.Context, problems []agentdef.Problem) {
	a.mu.Lock()
	before := a.fileProblems
	a.fileProblems = problems
	a.mu.Unlock()
	for _, p := range problems {
		known := slices.ContainsFunc(before, func(old agentdef.Problem) bool {
			return old.Source == p.Source && old.Kept == p.Kept && old.Err.Error() == p.Err.Error()
		})
		if !known {
			a.log.ErrorContext(ctx, "an agent definition is not valid and is not used", "source", p.Source, "error", p.Err, "last_good_kept", p.Kept)
		}
	}
}

func (a *agentCache) fileRegistry() *agentdef.Registry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.base
}

func (a *agentCache) problems() []agentdef.Problem {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fileProblems
}

// registryOf returns the definitions that apply to a tenant.
func (a *agentCache) registryOf(ctx context.Context, tenant string) (*agentdef.Registry, error) {
	now, err := a.snapshot(ctx, tenant)
	if err != nil {
		return nil, err
	}
	return a.registryWith(ctx, tenant, now.Versions())
}

// snapshot reads the definitions that a tenant has put.
func (a *agentCache) snapshot(ctx context.Context, tenant string) (*store.AgentsSnapshot, error) {
	now, err := a.store.SnapshotAgents(ctx, tenant)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.snapshots) >= maxCachedTenants {
		clear(a.snapshots)
	}
	a.snapshots[tenant] = now
	return now, nil
}

// lastSnapshot returns the last snapshot of a tenant, or nil.
func (a *agentCache) lastSnapshot(tenant string) *store.AgentsSnapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.snapshots[tenant]
}

// registryWith returns the definitions that apply to a tenant that has put these versions.
func (a *agentCache) registryWith(ctx context.Context, tenant string, versions []store.AgentVersion) (*agentdef.Registry, error) {
	base := a.fileRegistry()
	if len(versions) == 0 {
		return base, nil
	}
	a.mu.Lock()
	last := a.merged[tenant]
	a.mu.Unlock()
	if last.base == base && slices.Equal(last.versions, versions) {
		return last.registry, nil
	}
	var put []*agentdef.Definition
	for _, v := range versions {
		def, err := a.definition(ctx, v.Version)
		if err != nil {
			// A replica of a later release may have accepted a definition that can't be read here.
			a.log.ErrorContext(ctx, "a stored agent definition cannot be read and is not used", "agent", v.Name, "version", v.Version, "error", err)
			continue
		}
		put = append(put, def)
	}
	all, err := base.With(put...)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.merged) >= maxCachedTenants {
		clear(a.merged)
	}
	a.merged[tenant] = mergedRegistry{base, versions, all}
	return all, nil
}

// definition returns a stored definition by its version.
func (a *agentCache) definition(ctx context.Context, version string) (*agentdef.Definition, error) {
	a.mu.Lock()
	def := a.definitions[version]
	a.mu.Unlock()
	if def != nil {
		return def, nil
	}
	body, err := a.store.AgentVersion(ctx, version)
	if err != nil {
		return nil, err
	}
	if def, err = agentdef.Parse(sourceAPI, body); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.definitions[version]; now != nil { // another call was faster
		return now, nil
	}
	if len(a.definitions) >= maxCachedDefinitions || a.definitionBytes+len(body) > maxCachedDefinitionBytes {
		clear(a.definitions)
		a.definitionBytes = 0
	}
	a.definitions[version] = def
	a.definitionBytes += len(body)
	return def, nil
}

// resolveChild sets the agent and the model of a child that a client asks for.
func (s *Service) resolveChild(ctx context.Context, tenant string, child *tree.Child) error {
	agents, err := s.agents.snapshot(ctx, tenant)
	if err != nil {
		return err
	}
	return s.resolveChildWith(ctx, tenant, agents, child)
}

// resolveChildWith is resolveChild with the agents of a snapshot.
func (s *Service) resolveChildWith(ctx context.Context, tenant string, agents *store.AgentsSnapshot, child *tree.Child) error {
	all, err := s.agents.registryWith(ctx, tenant, agents.Versions())
	if err != nil {
		return err
	}
	if def, ok := all.Get(child.AgentName); ok {
		s.setAgent(child, def)
	}
	return nil
}

// sentAgents is the definitions that a worker was told about, and when.
type sentAgents struct {
	all *agentdef.Registry
	at  time.Time
}

// sentAgentsTTL is how long requests of a worker are answered with the definitions that it was told
// about.
const sentAgentsTTL = time.Second

// spawnableBy returns a lookup of the agents that an attempt may spawn. The definition that its
// task has pinned says which agents those are; their current definitions are used.
func (s *Service) spawnableBy(ctx context.Context, held *lease) (wire.AgentLookup, error) {
	definition, err := s.agents.definition(ctx, held.version)
	if err != nil {
		return nil, err
	}
	sent := held.agentsSent.Load()
	if sent == nil || s.Now().Sub(sent.at) > sentAgentsTTL {
		all, err := s.agents.registryOf(ctx, held.tenant)
		if err != nil {
			return nil, err
		}
		sent = &sentAgents{all: all}
	}
	all := sent.all
	spawnable := all.Spawnable(definition)
	return func(child *tree.Child) {
		if def, ok := all.Get(child.AgentName); ok && slices.Contains(spawnable, def) {
			s.setAgent(child, def)
		}
	}, nil
}

// spawnable lists the agents that an attempt may spawn, and records them as sent to its worker.
func (s *Service) spawnable(ctx context.Context, held *lease, versions []store.AgentVersion) ([]*pb.SpawnableAgent, error) {
	definition, err := s.agents.definition(ctx, held.version)
	if err != nil {
		return nil, err
	}
	all, err := s.agents.registryWith(ctx, held.tenant, versions)
	if err != nil {
		return nil, err
	}
	held.agentsSent.Store(&sentAgents{all, s.Now()})
	var out []*pb.SpawnableAgent
	for _, d := range all.Spawnable(definition) {
		out = append(out, &pb.SpawnableAgent{Name: d.Name, Description: d.Description, Background: d.Background})
	}
	return out, nil
}

// treeAgent returns what the core needs of a definition.
func treeAgent(def *agentdef.Definition) *tree.Agent {
	return &tree.Agent{
		Name: def.Name, Version: def.Version, Mode: def.Mode,
		Model: def.Model, MaxIterations: def.MaxIterations,
		Timeout: def.Timeout, FailOnInterrupt: def.FailOnInterrupt, ForkContext: def.ForkContext,
		OnComplete: def.OnComplete, Permissions: def.Permissions.Pin(), Worktree: def.Worktree,
	}
}

// setAgent sets the agent of a child, and the model that the call or else the definition names. A
// name that stands for the parent's model is left to the core, which knows the parent.
func (s *Service) setAgent(child *tree.Child, def *agentdef.Definition) {
	child.Agent = treeAgent(def)
	name := child.Model
	if name == "" {
		name = def.Model
	}
	var ok bool
	if child.Pin, ok = s.Models.Resolve(name); !ok {
		child.NoModel = fmt.Sprintf("%s; there are %s, and provider/model", name, strings.Join(s.Models.Names(), ", "))
	}
}
