package auth

import (
	"context"
	"fmt"
	"regexp"
	"slices"
)

// Role determines which services a caller may use.
type Role string

// The roles.
const (
	RoleClient Role = "client" // sessions, tasks, agents and approvals of a tenant
	RoleWorker Role = "worker" // carries the runs of all tenants, and does nothing else
	RoleAdmin  Role = "admin"  // everything
)

// DefaultTenant is the tenant of calls to a server that requires no tokens.
const DefaultTenant = "default"

// Identity is an authenticated caller.
type Identity struct {
	Name   string // name of the token, for logs; optional
	Tenant string // the caller sees its sessions; empty for workers
	Role   Role
}

var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Check returns what is wrong with an identity.
func (i Identity) Check() error {
	switch {
	case !slices.Contains([]Role{RoleClient, RoleWorker, RoleAdmin}, i.Role):
		return fmt.Errorf("the role is %q; it must be %s, %s or %s", i.Role, RoleClient, RoleWorker, RoleAdmin)
	case i.Role == RoleWorker && i.Tenant != "":
		return fmt.Errorf("the role worker serves all tenants and cannot have a tenant: remove tenant %q", i.Tenant)
	case i.Role != RoleWorker && !tenantName.MatchString(i.Tenant):
		return fmt.Errorf("the tenant is %q; it must be 1 to 63 characters from A-Z, a-z, 0-9, dot, _ and -", i.Tenant)
	}
	return nil
}

type contextKey struct{}

// NewContext returns a context for a call by this identity.
func NewContext(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, who)
}

// FromContext returns the caller. Without one it returns the zero Identity, which sees nothing.
func FromContext(ctx context.Context) Identity {
	who, _ := ctx.Value(contextKey{}).(Identity)
	return who
}
