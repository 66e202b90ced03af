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
	anthropicModel = "claude-sonnet-5-5"
	openaiModel    = "gpt-5.4"
)

// ownHosts are the vendors' own servers.
var ownHosts = map[string]string{anthropicName: "api.anthropic.com", openaiName: "api.openai.com"}

// Models are all models of the providers that the environment names. It implements
// [model.Model]: a request goes to the provider that its model belongs to.
type Models struct {
	flags    Flags
	log      *slog.Logger
	thinking anthropic.Thinking
	governor *ratelimit.Governor
	observe  retry.Observer
	known    map[string]*known
	first    *known // for what is not said to be another's
	name     string // of the model for requests that name none, of first's
}

// known is a provider that can be asked.
type known struct {
	name, key, base string
	model           model.Model
}

var _ model.Model = (*Models)(nil)

// read reads the provider's key and server from the environment. What can't be right
// is an error here, where a person sees it: a request would fail as if the network had,
// and be tried again.
func (k *known) read(getenv func(string) string) error {
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
	if u.Scheme == "https" && strings.EqualFold(u.Hostname(), ownHosts[k.name]) && (u.Port() == "" || u.Port() == "443") {
		k.base = "" // as if nobody had said so: what other servers are told, or lack, is not for it
	}
	return nil
}

// open opens what the environment names.
func (m *Models) open(getenv func(string) string) error {
	client := upstream.NewClient(upstream.DefaultTimes())
	for _, k := range []*known{
		{name: anthropicName},
		{name: openaiName},
	} {
		if err := k.read(getenv); err != nil {
			return err
		}
		if k.key+k.base == "" {
			continue
		}
		m.known[k.name] = k
		if m.first == nil {
			m.first = k
		}
	}
	if m.first == nil {
		return nil
	}
	if m.flags.Model != "" {
		m.first, m.name = m.route(m.flags.Model)
		if m.first == nil {
			return fmt.Errorf("--model is %q: %w", m.flags.Model, missing(m.flags.Model))
		}
	}
	for _, k := range m.known {
		if err := m.make(k, client); err != nil {
			return err
		}
	}
	return nil
}

// make makes a provider's model.
func (m *Models) make(k *known, client *http.Client) (err error) {
	standard := map[string]string{anthropicName: anthropicModel, openaiName: openaiModel}[k.name]
	switch {
	case k == m.first && m.name != "":
		standard = m.name
	case k == m.first && k.name == openaiName && k.base != "":
		return errors.New("OPENAI_BASE_URL is set: name a model that is served there, with --model or COPPICE_MODEL")
	}
	if k == m.first {
		m.name = standard
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
			Responses: overResponses(m.flags.OpenAI, k.base), Effort: m.flags.Effort, Logger: m.log,
		})
	}
	if err != nil {
		return err
	}
	k.model, err = retry.New(retry.Config{
		Model: k.model, Governor: m.governor, Bucket: k.bucket, Patience: m.flags.Patience, Logger: m.log,
		Provider: k.name, Observe: m.observe,
	})
	return err
}

// overResponses says which of its two APIs OpenAI's models are asked over. Few servers but
// OpenAI's own have the newer one.
func overResponses(said, base string) bool {
	return said == "responses" || said == "" && base == ""
}

// Generate asks the provider that the model belongs to.
func (m *Models) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	var k *known
	name := req.Model
	if req.Provider == "" {
		k, name = m.route(name)
	} else {
		k = m.known[req.Provider]
	}
	if k == nil {
		return nil, &model.Error{Kind: model.ErrorInvalid, Err: missing(cmp.Or(req.Provider, req.Model))}
	}
	asked := *req
	asked.Model = name
	return k.model.Generate(ctx, &asked, emit)
}

// route says whose model a name is, and what it is called there: provider/model is
// that provider's; claude… is Anthropic's, if that is known; all else is the first
// provider's. It gives nil if the name is that of a provider that is not known.
func (m *Models) route(name string) (*known, string) {
	if name == "" {
		return m.first, m.name
	}
	if provider, own, ok := strings.Cut(name, "/"); ok && own != "" && (provider == anthropicName || provider == openaiName) {
		return m.known[provider], own
	}
	if k := m.known[anthropicName]; k != nil && strings.HasPrefix(name, "claude") {
		return k, name
	}
	if k := m.known[openaiName]; k != nil && strings.HasPrefix(name, "gpt-") {
		return k, name
	}
	return m.first, name
}

// missing says what to do about a provider that is not known. name is its own, or
// that of a model of its.
func missing(name string) error {
	provider, _, _ := strings.Cut(name, "/")
	if provider != anthropicName && provider != openaiName {
		return fmt.Errorf("there is no provider %s: there are %s and %s", provider, anthropicName, openaiName)
	}
	return fmt.Errorf("the provider %s is not set up: set %s_API_KEY or %s_BASE_URL where the worker runs",
		provider, strings.ToUpper(provider), strings.ToUpper(provider))
}

// bucket names the rate limit that a model falls under. The key and the server are
// in it as a hash only.
func (k *known) bucket(name string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.base, k.key, name}, "\x00")))
	return k.name + ":" + hex.EncodeToString(sum[:8])
}

// which says who is asked.
func (m *Models) which() string {
	which := fmt.Sprintf("asking %s/%s", m.first.name, m.name)
	if m.first.base != "" {
		which += " at " + m.first.base
	}
	var others []string
	for name, k := range m.known {
		if k != m.first {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		which += ", and " + strings.Join(others, ", ") + " for models of theirs"
	}
	return which
}
