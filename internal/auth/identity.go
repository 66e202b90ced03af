package auth

import (
	"context"
	"fmt"
	"regexp"
	"slices"
)

// Role says which services a caller may use.
type Role string

// The roles.
const (
	RoleClient Role = "client" // sessions, tasks, agents and approvals of a tenant
	RoleWorker Role = "worker" // carries the runs of all tenants, and does nothing else
	RoleAdmin  Role = "admin"  // everything
)

// DefaultTenant is whose sessions are seen where calls carry no credentials.
const DefaultTenant = "default"

// Identity is who calls.
type Identity struct {
	Name   string // of the token, for logs; may be empty
	Tenant string // whose sessions the caller sees; a worker has none
	Role   Role
}

var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Check says what is wrong with an identity.
func (i Identity) Check() error {
	switch {
	case !slices.Contains([]Role{RoleClient, RoleWorker, RoleAdmin}, i.Role):
		return fmt.Errorf("the role is %q; it has to be %s, %s or %s", i.Role, RoleClient, RoleWorker, RoleAdmin)
	case i.Role == RoleWorker && i.Tenant != "":
		return fmt.Errorf("a worker serves all tenants, and belongs to none: leave out tenant %q", i.Tenant)
	case i.Role != RoleWorker && !tenantName.MatchString(i.Tenant):
		return fmt.Errorf("the tenant is %q; it has to be 1 to 63 of A-Z, a-z, 0-9, dot, _ and -", i.Tenant)
	}
	return nil
}

type contextKey struct{}

// NewContext gives a context of a call by somebody.
func NewContext(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, who)
}

// FromContext gives who makes the call; the zero Identity, which sees nothing, if nobody
// has said so.
func FromContext(ctx context.Context) Identity {
	who, _ := ctx.Value(contextKey{}).(Identity)
	return who
}
