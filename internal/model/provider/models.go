package provider

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/anthropic"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/model/retry"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// Models serves the models of all providers that the environment configures. It implements
// [model.Router]: a request goes to the provider of its model.
type Models struct {
	flags          Flags
	log            *slog.Logger
	thinking       anthropic.Thinking
	limiter        *ratelimit.Limiter
	observer       retry.Observer
	backends       []*backend // in the order of vendors
	defaultBackend *backend   // for models that no other provider claims, and for requests that name no model
}

// backend is a configured provider.
type backend struct {
	*vendor
	key, base string
	standard  string // the model for requests that name none
	model     model.Model
}

var _ model.Router = (*Models)(nil)

// read reads the key and the server of the provider from the environment. It rejects invalid
// values here, where a person sees the error. Otherwise each request would fail like a network
// error, and be retried.
func (k *backend) read(getenv func(string) string) error {
	key, base := k.variables()
	k.key, k.base = strings.TrimSpace(getenv(key)), strings.TrimSpace(getenv(base))
	if strings.ContainsFunc(k.key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("%s has a space or a line break in it", key)
	}
	if k.base == "" {
		return nil
	}
	u, err := url.Parse(k.base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%s is %q; expected a URL like http://host:8080 or https://host/path", base, k.base)
	}
	if u.Scheme == "https" && strings.EqualFold(u.Hostname(), k.host) && (u.Port() == "" || u.Port() == "443") {
		k.base = "" // the same as unset: options for other servers do not apply to the vendor's own
	}
	return nil
}

// open creates the backends that the environment configures.
func (m *Models) open(getenv func(string) string) error {
	client := upstream.NewClient(upstream.DefaultTimeouts())
	for _, v := range vendors {
		k := &backend{vendor: v, standard: v.defaultModel}
		if err := k.read(getenv); err != nil {
			return err
		}
		if k.key+k.base != "" {
			m.backends = append(m.backends, k)
		}
	}
	if len(m.backends) == 0 {
		return nil
	}
	m.defaultBackend = m.backends[0]
	if m.flags.Model != "" {
		k, name := m.route(m.flags.Model)
		if k == nil {
			return fmt.Errorf("--model is %q: %w", m.flags.Model, notConfigured(m.flags.Model))
		}
		k.standard, m.defaultBackend = name, k
	}
	for _, k := range m.backends {
		if err := m.build(k, client); err != nil {
			return err
		}
	}
	return nil
}

// build creates the model of a backend.
func (m *Models) build(k *backend, client *http.Client) error {
	opened, err := k.open(m, k, client)
	if err != nil {
		return err
	}
	k.model, err = retry.New(retry.Config{
		Model: opened, Limiter: m.limiter, Bucket: k.bucket, Patience: m.flags.Patience, Logger: m.log,
		Provider: k.name, Observer: m.observer,
	})
	return err
}

// Generate sends the request to the provider of its model.
func (m *Models) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	k, name := m.routeRequest(req)
	if k == nil {
		return nil, &model.Error{Kind: model.ErrorInvalid, Err: notConfigured(cmp.Or(req.Provider, req.Model))}
	}
	asked := *req
	asked.Model = name
	return k.model.Generate(ctx, &asked, emit)
}

// Route returns the provider of the request, and the name of the model there.
func (m *Models) Route(req *model.Request) (provider, name string) {
	k, name := m.routeRequest(req)
	if k == nil {
		return req.Provider, name
	}
	return k.name, name
}

// routeRequest returns the backend of a request, and the name of the model there. The backend is
// nil if the provider is not configured. An empty name is the default model of the backend.
func (m *Models) routeRequest(req *model.Request) (*backend, string) {
	if req.Provider == "" {
		return m.route(req.Model)
	}
	k := m.backend(req.Provider)
	if k != nil && req.Model == "" {
		return k, k.standard
	}
	return k, req.Model
}

// backend returns the backend of a provider, or nil if it is not configured.
func (m *Models) backend(provider string) *backend {
	for _, k := range m.backends {
		if k.name == provider {
			return k
		}
	}
	return nil
}

// route returns the backend of a model name, and the name of the model there:
//
//   - provider/model belongs to that provider.
//   - A plain name like that of a vendor's own models belongs to this vendor, if it is configured.
//   - All else belongs to the default backend.
//
// The backend is nil if the named provider is not configured.
func (m *Models) route(name string) (*backend, string) {
	if name == "" {
		return m.defaultBackend, m.defaultBackend.standard
	}
	if provider, own, ok := strings.Cut(name, "/"); ok && own != "" && vendorNamed(provider) != nil {
		return m.backend(provider), own
	}
	for _, k := range m.backends {
		if k.owns(name) {
			return k, name
		}
	}
	return m.defaultBackend, name
}

// notConfigured returns the error for a provider that is not configured. name is the provider
// or one of its models.
func notConfigured(name string) error {
	provider, _, _ := strings.Cut(name, "/")
	v := vendorNamed(provider)
	if v == nil {
		var names []string
		for _, known := range vendors {
			names = append(names, known.name)
		}
		return fmt.Errorf("there is no provider %s: there are %s", provider, strings.Join(names, " and "))
	}
	key, base := v.variables()
	return fmt.Errorf("the provider %s is not set up: set %s or %s where the worker runs", provider, key, base)
}

// bucket returns the rate limit bucket of a model. It contains the key and the server only as a
// hash.
func (k *backend) bucket(name string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.base, k.key, name}, "\x00")))
	return k.name + ":" + hex.EncodeToString(sum[:8])
}

// describe says which providers are in use.
func (m *Models) describe() string {
	which := fmt.Sprintf("asking %s/%s", m.defaultBackend.name, m.defaultBackend.standard)
	if m.defaultBackend.base != "" {
		which += " at " + m.defaultBackend.base
	}
	var others []string
	for _, k := range m.backends {
		if k != m.defaultBackend {
			others = append(others, k.name)
		}
	}
	if len(others) > 0 {
		which += ", and " + strings.Join(others, ", ") + " for their models"
	}
	return which
}
