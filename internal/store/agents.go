package store

import (
	"context"
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
	return query(ctx, glancing{s.db}, "tenant_agents", plainVersionRow, tenant)
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
