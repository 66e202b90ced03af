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

// The providers by their names in provider/model.
const (
	anthropicName = "anthropic"
	openaiName    = "openai"
)

// What is asked for if nobody names a model.
const (
	defaultAnthropicModel = "claude-sonnet-5-5"
	defaultOpenAIModel    = "gpt-5.4"
)

// vendorHosts are the vendors' own servers.
var vendorHosts = map[string]string{anthropicName: "api.anthropic.com", openaiName: "api.openai.com"}

// Models are all models of the providers that the environment names. It implements
// [model.Model]: a request goes to the provider that its model belongs to.
type Models struct {
	flags          Flags
	log            *slog.Logger
	thinking       anthropic.Thinking
	limiter        *ratelimit.Limiter
	observer       retry.Observer
	backends       map[string]*backend
	defaultBackend *backend // for what is not said to be another's
	defaultModel   string   // of the model for requests that name none, of first's
}

// known is a provider that can be asked.
type backend struct {
	name, key, base string
	model           model.Model
}

var _ model.Model = (*Models)(nil)

// read reads the provider's key and server from the environment. What can't be right
// is an error here, where a person sees it: a request would fail as if the network had,
// and be tried again.
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
		k.base = "" // as if nobody had said so: what other servers are told, or lack, is not for it
	}
	return nil
}

// open opens what the environment names.
func (m *Models) open(getenv func(string) string) error {
	client := upstream.NewClient(upstream.DefaultTimeouts())
	for _, k := range []*backend{
		{name: anthropicName},
		{name: openaiName},
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
		m.defaultBackend, m.defaultModel = m.route(m.flags.Model)
		if m.defaultBackend == nil {
			return fmt.Errorf("--model is %q: %w", m.flags.Model, notConfigured(m.flags.Model))
		}
	}
	for _, k := range m.backends {
		if err := m.build(k, client); err != nil {
			return err
		}
	}
	return nil
}

// build makes a provider's model.
func (m *Models) build(k *backend, client *http.Client) (err error) {
	standard := map[string]string{anthropicName: defaultAnthropicModel, openaiName: defaultOpenAIModel}[k.name]
	switch {
	case k == m.defaultBackend && m.defaultModel != "":
		standard = m.defaultModel
	case k == m.defaultBackend && k.name == openaiName && k.base != "":
		return errors.New("OPENAI_BASE_URL is set: name a model that is served there, with --model or COPPICE_MODEL")
	}
	if k == m.defaultBackend {
		m.defaultModel = standard
	}
	switch k.name {
	case anthropicName:
		k.model, err = anthropic.New(anthropic.Config{
			Key: k.key, BaseURL: k.base, Model: standard, Thinking: m.thinking, HTTP: client,
		})
		if err == nil {
			// What a request marks is written into the cache, and paid for. Who waits here has had
			// its turn at a rate limit: none of another session keeps it waiting with its own.
			k.model = primer.New(k.model)
		}
	case openaiName:
		k.model, err = openai.New(openai.Config{
			Key: k.key, BaseURL: k.base, Model: standard, HTTP: client,
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

// usesResponses says which of its two APIs OpenAI's models are asked over. Few servers but
// OpenAI's own have the newer one.
func usesResponses(said, base string) bool {
	return said == "responses" || said == "" && base == ""
}

// Generate asks the provider that the model belongs to.
func (m *Models) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	var k *backend
	name := req.Model
	if req.Provider == "" {
		k, name = m.route(name)
	} else {
		k = m.backends[req.Provider]
	}
	if k == nil {
		return nil, &model.Error{Kind: model.ErrorInvalid, Err: notConfigured(cmp.Or(req.Provider, req.Model))}
	}
	asked := *req
	asked.Model = name
	return k.model.Generate(ctx, &asked, emit)
}

// route says whose model a name is, and what it is called there: provider/model is
// that provider's; claude… is Anthropic's, if that is known; all else is the first
// provider's. It gives nil if the name is that of a provider that is not known.
func (m *Models) route(name string) (*backend, string) {
	if name == "" {
		return m.defaultBackend, m.defaultModel
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

// notConfigured says what to do about a provider that is not known. name is its own, or
// that of a model of its.
func notConfigured(name string) error {
	provider, _, _ := strings.Cut(name, "/")
	if provider != anthropicName && provider != openaiName {
		return fmt.Errorf("there is no provider %s: there are %s and %s", provider, anthropicName, openaiName)
	}
	return fmt.Errorf("the provider %s is not set up: set %s_API_KEY or %s_BASE_URL where the worker runs",
		provider, strings.ToUpper(provider), strings.ToUpper(provider))
}

// bucket names the rate limit that a model falls under. The key and the server are
// in it as a hash only.
func (k *backend) bucket(name string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.base, k.key, name}, "\x00")))
	return k.name + ":" + hex.EncodeToString(sum[:8])
}

// describe says who is asked.
func (m *Models) describe() string {
	which := fmt.Sprintf("asking %s/%s", m.defaultBackend.name, m.defaultModel)
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
		which += ", and " + strings.Join(others, ", ") + " for models of theirs"
	}
	return which
}
