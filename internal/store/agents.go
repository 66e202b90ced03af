package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// AgentVersion names a version of a definition.
type AgentVersion struct {
	Name    string
	Version string
	PutAt   time.Time // zero where it is not read
}

// MaxTenantAgents limits the agents of one tenant.
const MaxTenantAgents = 1000

// PutAgentVersion stores a definition that tasks may pin. It refuses a version that another
// definition has.
func (s *Store) PutAgentVersion(ctx context.Context, name, version string, body []byte) error {
	var refused error
	err := s.write(ctx, func(ctx context.Context, b *batch) (err error) {
		refused, err = b.addAgentVersion(ctx, AgentVersion{Name: name, Version: version}, body)
		return err
	})
	return cmp.Or(err, refused)
}

// addAgentVersion stores a definition. All tenants share the versions, which are short enough that
// somebody can write two definitions with the same one. Whoever puts one of them must not get the
// other.
func (b *batch) addAgentVersion(ctx context.Context, v AgentVersion, body []byte) (refused, err error) {
	if err := b.tx.save(ctx, "agent_add", []any{v.Version, v.Name, body}); err != nil {
		return nil, err
	}
	var stored []byte
	if err := b.tx.load(ctx, lookup{"agent", [][]any{{v.Version}}, func(row row) error { return row.Scan(&stored) }}); err != nil {
		return nil, err
	}
	if !bytes.Equal(stored, body) {
		return tree.ErrBadInput.With("another definition has the version %s of this one; change anything in it, such as a word of its prompt", v.Version), nil
	}
	return nil, nil
}

// AgentVersion returns a stored definition.
func (s *Store) AgentVersion(ctx context.Context, version string) ([]byte, error) {
	if body, known := s.definitions.get(version); known {
		return body, nil
	}
	body, err := one(ctx, s.db, tree.ErrNoAgent.With("version %s", version),
		"agent", func(b *[]byte) []any { return []any{b} }, version)
	if err != nil {
		return nil, err
	}
	s.definitions.put(version, *body)
	return *body, nil
}

// PutAgent stores a definition of a tenant and makes it the current version under its name. Earlier
// versions stay for the tasks that pin them.
func (s *Store) PutAgent(ctx context.Context, tenant string, v AgentVersion, body []byte) error {
	var refused error
	err := s.write(ctx, func(ctx context.Context, b *batch) error {
		refused = nil
		names := map[string]bool{v.Name: true}
		err := b.tx.load(ctx, lookup{"tenant_agents", [][]any{{tenant}}, func(row row) error {
			var name, version string
			err := row.Scan(&name, &version)
			names[name] = true
			return err
		}})
		if err != nil {
			return err
		}
		if len(names) > MaxTenantAgents {
			refused = tree.ErrTooLarge.With("a tenant may store at most %d agents", MaxTenantAgents)
			return nil
		}
		if refused, err = b.addAgentVersion(ctx, v, body); err != nil || refused != nil {
			return err
		}
		if err := b.tx.save(ctx, "tenant_agent_version_put", []any{s.clock(), tenant, v.Name, v.Version}); err != nil {
			return err
		}
		b.committer.agents = nil
		return b.tx.save(ctx, "tenant_agent_put", []any{tenant, v.Name, v.Version})
	})
	return cmp.Or(err, refused)
}

// DropAgent deletes an agent of a tenant and returns its current version. Its versions stay.
func (s *Store) DropAgent(ctx context.Context, tenant, name string) (version string, err error) {
	err = s.write(ctx, func(ctx context.Context, b *batch) error {
		version = ""
		if err := b.tx.load(ctx, lookup{"tenant_agent", [][]any{{tenant, name}}, func(row row) error {
			return row.Scan(&version)
		}}); err != nil || version == "" {
			return err
		}
		b.committer.agents = nil
		return b.tx.save(ctx, "tenant_agent_drop", []any{tenant, name})
	})
	if err == nil && version == "" {
		return "", tree.ErrNoAgent.With("%s", name)
	}
	return version, err
}

// TenantAgents lists a tenant's agents, by name, with their current versions.
func (s *Store) TenantAgents(ctx context.Context, tenant string) ([]AgentVersion, error) {
	return query(ctx, coalescingReader{s.db}, "tenant_agents", plainVersionRow, tenant)
}

// AgentsSnapshot is the list of a tenant's agents at some time. It never changes.
type AgentsSnapshot struct {
	versions []AgentVersion
	lines    string // the same, in the form that agents_unchanged compares
}

// SnapshotAgents is TenantAgents for a command that is to be decided only if the agents are still
// the same.
func (s *Store) SnapshotAgents(ctx context.Context, tenant string) (*AgentsSnapshot, error) {
	versions, err := s.TenantAgents(ctx, tenant)
	if err != nil {
		return nil, err
	}
	lines := make([]string, len(versions))
	for i, v := range versions {
		lines[i] = v.Name + " " + v.Version
	}
	return &AgentsSnapshot{versions, strings.Join(lines, "\n")}, nil
}

// Versions lists the agents, by name.
func (a *AgentsSnapshot) Versions() []AgentVersion { return a.versions }

// ErrAgentsChanged says that a tenant's agents are not those with which a session was to be opened.
// Nothing was decided.
var ErrAgentsChanged = errors.New("store: the tenant's agents are others now")

// maxKnownTenants limits the tenants whose agents a committer keeps; each may have MaxTenantAgents.
const maxKnownTenants = 100

// knownAgents gives the agents that a transaction need not read. Nobody else changes those in a
// database that is exclusive, so what one transaction has read serves the next ones as well.
func (c *committer) knownAgents() map[string]*[]AgentVersion {
	if c.agents == nil || !c.Exclusive() || len(c.agents) > maxKnownTenants {
		c.agents = map[string]*[]AgentVersion{}
	}
	return c.agents
}

// readsAgents reports whether a batch reads the agents of tenants before it decides, instead of
// having the database compare them.
func (b *batch) readsAgents() bool { return b.mode == modeReread || b.Exclusive() }

// compareAgents has the database compare a tenant's agents with those with which a session is to be
// opened. It fails with errChanged if they differ.
func (b *batch) compareAgents(tenant string, then *AgentsSnapshot) []lookup {
	if b.agents[tenant] == &then.versions {
		return nil
	}
	b.agents[tenant] = &then.versions
	return []lookup{{"agents_unchanged", [][]any{{tenant, then.lines}}, func(row row) error { return row.Scan(new(int)) }}}
}

// agentsDiffer reports whether the tenant's agents are not those with which a session was to be
// opened.
func (b *batch) agentsDiffer(p *Pending) bool {
	if p.agents == nil || !b.readsAgents() {
		return false
	}
	return !slices.Equal(*b.agents[p.cmd.(tree.CreateSession).Tenant], p.agents.versions)
}

func plainVersionRow(v *AgentVersion) []any { return []any{&v.Name, &v.Version} }

// AgentVersions lists the versions of an agent that a tenant has put, newest first.
func (s *Store) AgentVersions(ctx context.Context, tenant, name string, limit int) ([]AgentVersion, error) {
	return query(ctx, s.db, "tenant_agent_versions", func(v *AgentVersion) []any {
		v.Name = name
		return []any{&v.Version, timeColumn{&v.PutAt}}
	}, tenant, name, limit)
}

// HasAgentVersion reports whether a tenant has ever put a version of an agent.
func (s *Store) HasAgentVersion(ctx context.Context, tenant, name, version string) (bool, error) {
	found, err := query(ctx, s.db, "tenant_agent_version", func(v *string) []any { return []any{v} }, tenant, name, version)
	return len(found) > 0, err
}
