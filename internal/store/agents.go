package store

import (
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
	PutAt   time.Time // zero where it is not asked for
}

// MaxTenantAgents bounds the agents that one tenant may put.
const MaxTenantAgents = 1000

// PutAgent keeps a definition for a tenant and makes it the one that counts under
// its name. The versions that counted before stay, for the tasks that pin them.
func (s *Store) PutAgent(ctx context.Context, tenant string, v AgentVersion, body []byte) error {
	tooMany := false
	err := s.write(ctx, func(ctx context.Context, b *batch) error {
		tooMany = false
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
		if tooMany = len(names) > MaxTenantAgents; tooMany {
			return nil
		}
		if err := b.tx.save(ctx, "agent_add", []any{v.Version, v.Name, body}); err != nil {
			return err
		}
		if err := b.tx.save(ctx, "tenant_agent_version_put", []any{s.clock(), tenant, v.Name, v.Version}); err != nil {
			return err
		}
		return b.tx.save(ctx, "tenant_agent_put", []any{tenant, v.Name, v.Version})
	})
	if err == nil && tooMany {
		return tree.ErrTooLarge.With("a tenant may put %d agents", MaxTenantAgents)
	}
	return err
}

// DropAgent takes an agent of a tenant's away, and gives the version that counted.
// Its versions stay.
func (s *Store) DropAgent(ctx context.Context, tenant, name string) (version string, err error) {
	err = s.write(ctx, func(ctx context.Context, b *batch) error {
		version = ""
		if err := b.tx.load(ctx, lookup{"tenant_agent", [][]any{{tenant, name}}, func(row row) error {
			return row.Scan(&version)
		}}); err != nil || version == "" {
			return err
		}
		return b.tx.save(ctx, "tenant_agent_drop", []any{tenant, name})
	})
	if err == nil && version == "" {
		return "", tree.ErrNoAgent.With("%s", name)
	}
	return version, err
}

// TenantAgents lists the agents that a tenant has put, by name, with the versions
// that count.
func (s *Store) TenantAgents(ctx context.Context, tenant string) ([]AgentVersion, error) {
	return query(ctx, coalescingReader{s.db}, "tenant_agents", plainVersionRow, tenant)
}

// AgentsSnapshot is which agents a tenant had put at some time. It never changes.
type AgentsSnapshot struct {
	versions []AgentVersion
	lines    string // the same, as the database puts it
}

// SnapshotAgents is TenantAgents for what is to be decided only as long as they are the same.
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

// Versions lists them, by name.
func (a *AgentsSnapshot) Versions() []AgentVersion { return a.versions }

// ErrAgentsChanged says that a tenant's agents are not those that a session was to be opened
// with. Nothing was decided.
var ErrAgentsChanged = errors.New("store: the tenant's agents are others now")

// readsAgents reports whether a batch reads the agents of tenants before it decides, instead
// of having the database look that they are still the same.
func (b *batch) readsAgents() bool { return b.mode == modeReread || b.Exclusive() }

// compareAgents has the database look that a tenant's agents are those that a session is
// to be opened with. It fails with errChanged if they are not.
func (b *batch) compareAgents(tenant string, then *AgentsSnapshot) []lookup {
	if b.agents[tenant] == &then.versions {
		return nil
	}
	b.agents[tenant] = &then.versions
	return []lookup{{"agents_unchanged", [][]any{{tenant, then.lines}}, func(row row) error { return row.Scan(new(int)) }}}
}

// agentsDiffer reports whether a session was to be opened with agents that are others now.
func (b *batch) agentsDiffer(p *Pending) bool {
	if p.agents == nil || !b.readsAgents() {
		return false
	}
	return !slices.Equal(*b.agents[p.cmd.(tree.CreateSession).Tenant], p.agents.versions)
}

func plainVersionRow(v *AgentVersion) []any { return []any{&v.Name, &v.Version} }

// AgentVersions lists the versions that a tenant has put of an agent, the one that
// was put last first.
func (s *Store) AgentVersions(ctx context.Context, tenant, name string, limit int) ([]AgentVersion, error) {
	return query(ctx, s.db, "tenant_agent_versions", func(v *AgentVersion) []any {
		v.Name = name
		return []any{&v.Version, timeColumn{&v.PutAt}}
	}, tenant, name, limit)
}
