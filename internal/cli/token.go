package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/coppice-run/coppice/internal/auth"
)

type tokenCommand struct {
	Role    string         `env:"" default:"client" enum:"client,worker,admin" help:"Role of the token: client, worker or admin."`
	Tenant  string         `env:"" placeholder:"NAME" help:"Whose sessions a client or an admin sees; by default those of \"default\"."`
	Name    string         `env:"" placeholder:"TEXT" help:"Name of the holder, for logs."`
	Expires *time.Duration `env:"" placeholder:"DURATION" help:"How long the token is valid, for example 720h; default: no limit."`
}

// Run prints a new token, and then the line for the orchestrators' file of tokens. Neither is
// stored here.
func (t *tokenCommand) Run(_ context.Context, a *app) error {
	who := auth.Identity{Name: t.Name, Tenant: t.Tenant, Role: auth.Role(t.Role)}
	if who.Tenant == "" && who.Role != auth.RoleWorker {
		who.Tenant = auth.DefaultTenant
	}
	var expires time.Time
	if t.Expires != nil {
		if *t.Expires <= 0 {
			return usagef("--expires is %s; it has to be more than 0", *t.Expires)
		}
		expires = a.now().Add(*t.Expires)
	}
	token, entry, err := auth.NewToken(who, expires)
	if err != nil {
		return usagef("%w", err)
	}
	if a.json {
		line, err := json.Marshal(struct {
			Token string     `json:"token"`
			Entry auth.Entry `json:"entry"`
		}{token, entry})
		if err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		_, err = fmt.Fprintf(a.Stdout, "%s\n", line)
		return err
	}
	line, err := yaml.MarshalWithOptions(entry, yaml.Flow(true), yaml.CustomMarshaler(flowText))
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n  - %s", token, line)
	return err
}

// plainText matches text that means the same within braces as alone.
var plainText = regexp.MustCompile(`^[\pL\pN ._@/-]*$`)

// flowText writes a text for a mapping in braces. The library quotes a text if it has to be quoted
// outside of braces, where a bracket, for example, may stand in it.
func flowText(text string) ([]byte, error) {
	if plainText.MatchString(text) {
		return yaml.Marshal(text)
	}
	return []byte(strconv.Quote(text)), nil
}
