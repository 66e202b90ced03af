package provider

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/anthropic"
	"github.com/coppice-run/coppice/internal/model/openai"
	"github.com/coppice-run/coppice/internal/model/primer"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/model/retry"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// The provider names in provider/model.
const (
	anthropicName = "anthropic"
	openaiName    = "openai"
)

// The default models.
const (
	defaultAnthropicModel = "claude-sonnet-5-5"
	defaultOpenAIModel    = "gpt-5.4"
)

// vendorHosts are the vendors' own servers.
var vendorHosts = map[string]string{anthropicName: "api.anthropic.com", openaiName: "api.openai.com"}

// Models serves the models of all providers that the environment configures. It implements
// [model.Router]: a request goes to the provider of its model.
type Models struct {
	flags          Flags
	log            *slog.Logger
	thinking       anthropic.Thinking
	limiter        *ratelimit.Limiter
	observer       retry.Observer
	backends       map[string]*backend
	defaultBackend *backend // for models that no other provider claims, and for requests that name no model
}

// backend is a configured provider.
type backend struct {
	name, key, base string
	standard        string // the model for requests that name none
	model           model.Model
}

var _ model.Router = (*Models)(nil)

// read reads the key and the server of the provider from the environment. It rejects invalid
// values here, where a person sees the error. Otherwise each request would fail like a network
// error, and be retried.
func (k *backend) read(getenv func(string) string) error {
	prefix := strings.ToUpper(k.name)
	k.key, k.base = strings.TrimSpace(getenv(prefix+"_API_KEY")), strings.TrimSpace(getenv(prefix+"_BASE_URL"))
	if strings.ContainsFunc(k.key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("%s_API_KEY has a space or a line break in it", prefix)
	}
	if k.base == "" {
		return nil
	}
	u, err := url.Parse(k.base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%s_BASE_URL is %q; expected a URL like http://host:8080 or https://host/path", prefix, k.base)
	}
	if u.Scheme == "https" && strings.EqualFold(u.Hostname(), vendorHosts[k.name]) && (u.Port() == "" || u.Port() == "443") {
		k.base = "" // the same as unset: options for other servers do not apply to the vendor's own
	}
	return nil
}

// open creates the backends that the environment configures.
func (m *Models) open(getenv func(string) string) error {
	client := upstream.NewClient(upstream.DefaultTimeouts())
	for _, k := range []*backend{
		{name: anthropicName, standard: defaultAnthropicModel},
		{name: openaiName, standard: defaultOpenAIModel},
	} {
		if err := k.read(getenv); err != nil {
			return err
		}
		if k.key+k.base == "" {
			continue
		}
		m.backends[k.name] = k
		if m.defaultBackend == nil {
			m.defaultBackend = k
		}
	}
	if m.defaultBackend == nil {
		return nil
	}
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
func (m *Models) build(k *backend, client *http.Client) (err error) {
	if k == m.defaultBackend && k.name == openaiName && k.base != "" && m.flags.Model == "" {
		return errors.New("OPENAI_BASE_URL is set: name a model that is served there, with --model or COPPICE_MODEL")
	}
	switch k.name {
	case anthropicName:
		k.model, err = anthropic.New(anthropic.Config{
			Key: k.key, BaseURL: k.base, Model: k.standard, Thinking: m.thinking, HTTP: client,
		})
		if err == nil {
			// A request writes to the provider's cache what it marks, and pays for it. The
			// primer is inside the rate limit, so a request that waits in it does not wait for
			// the rate limit turns of another session.
			k.model = primer.New(k.model)
		}
	case openaiName:
		k.model, err = openai.New(openai.Config{
			Key: k.key, BaseURL: k.base, Model: k.standard, HTTP: client,
			Responses: usesResponses(m.flags.OpenAI, k.base), Effort: m.flags.Effort, Logger: m.log,
		})
	}
	if err != nil {
		return err
	}
	k.model, err = retry.New(retry.Config{
		Model: k.model, Limiter: m.limiter, Bucket: k.bucket, Patience: m.flags.Patience, Logger: m.log,
		Provider: k.name, Observer: m.observer,
	})
	return err
}

// usesResponses reports whether OpenAI's models are called over the Responses API. Few servers
// other than OpenAI's own support it.
func usesResponses(said, base string) bool {
	return said == "responses" || said == "" && base == ""
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
	k := m.backends[req.Provider]
	if k != nil && req.Model == "" {
		return k, k.standard
	}
	return k, req.Model
}

// route returns the backend of a model name, and the name of the model there:
//
//   - provider/model belongs to that provider.
//   - claude… belongs to Anthropic and gpt-… to OpenAI, if they are configured.
//   - All else belongs to the default backend.
//
// The backend is nil if the named provider is not configured.
func (m *Models) route(name string) (*backend, string) {
	if name == "" {
		return m.defaultBackend, m.defaultBackend.standard
	}
	if provider, own, ok := strings.Cut(name, "/"); ok && own != "" && (provider == anthropicName || provider == openaiName) {
		return m.backends[provider], own
	}
	if k := m.backends[anthropicName]; k != nil && strings.HasPrefix(name, "claude") {
		return k, name
	}
	if k := m.backends[openaiName]; k != nil && strings.HasPrefix(name, "gpt-") {
		return k, name
	}
	return m.defaultBackend, name
}

// notConfigured returns the error for a provider that is not configured. name is the provider
// or one of its models.
func notConfigured(name string) error {
	provider, _, _ := strings.Cut(name, "/")
	if provider != anthropicName && provider != openaiName {
		return fmt.Errorf("there is no provider %s: there are %s and %s", provider, anthropicName, openaiName)
	}
	return fmt.Errorf("the provider %s is not set up: set %s_API_KEY or %s_BASE_URL where the worker runs",
		provider, strings.ToUpper(provider), strings.ToUpper(provider))
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
	for name, k := range m.backends {
		if k != m.defaultBackend {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		which += ", and " + strings.Join(others, ", ") + " for their models"
	}
	return which
}
