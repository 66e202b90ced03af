package provider

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/anthropic"
	"github.com/coppice-run/coppice/internal/model/openai"
	"github.com/coppice-run/coppice/internal/model/primer"
)

// vendor is a provider that this program knows.
type vendor struct {
	name         string   // in provider/model; in capitals, it begins the names of its variables
	host         string   // the vendor's own server
	defaultModel string   // for requests that name none
	models       []string // globs for the plain names of its models
	open         func(*Models, *backend, *http.Client) (model.Model, error)
}

// vendors are all of them. The first one that is configured is the default.
var vendors = []*vendor{
	{"anthropic", "api.anthropic.com", "claude-sonnet-5-5", []string{"claude*"}, (*Models).openAnthropic},
	{"openai", "api.openai.com", "gpt-5.4", []string{"gpt-*", "o[0-9]*"}, (*Models).openOpenAI},
}

func (m *Models) openAnthropic(k *backend, client *http.Client) (model.Model, error) {
	opened, err := anthropic.New(anthropic.Config{
		Key: k.key, BaseURL: k.base, Model: k.standard, Thinking: m.thinking, HTTP: client,
	})
	if err != nil {
		return nil, err
	}
	// A request writes to the provider's cache what it marks, and pays for it. The primer is
	// inside the rate limit, so a request that waits in it does not wait for the rate limit
	// turns of another session.
	return primer.New(opened), nil
}

func (m *Models) openOpenAI(k *backend, client *http.Client) (model.Model, error) {
	if k == m.defaultBackend && k.base != "" && m.flags.Model == "" {
		return nil, errors.New("OPENAI_BASE_URL is set: name a model that is served there, with --model or COPPICE_MODEL")
	}
	return openai.New(openai.Config{
		Key: k.key, BaseURL: k.base, Model: k.standard, HTTP: client,
		Responses: usesResponses(m.flags.OpenAI, k.base), Effort: m.flags.Effort, Logger: m.log,
	})
}

// usesResponses reports whether OpenAI's models are called over the Responses API. Few servers
// other than OpenAI's own support it.
func usesResponses(said, base string) bool {
	return said == "responses" || said == "" && base == ""
}

// vendorNamed returns a vendor, or nil.
func vendorNamed(name string) *vendor {
	for _, v := range vendors {
		if v.name == name {
			return v
		}
	}
	return nil
}

// owns reports whether a plain name is that of one of its models.
func (v *vendor) owns(name string) bool {
	return slices.ContainsFunc(v.models, func(glob string) bool { fits, err := path.Match(glob, name); return fits && err == nil })
}

// variables returns the names of the variables that configure it.
func (v *vendor) variables() (key, base string) {
	prefix := strings.ToUpper(v.name)
	return prefix + "_API_KEY", prefix + "_BASE_URL"
}

// Variables lists the variables that configure providers, for messages.
func Variables() string {
	var all []string
	for _, v := range vendors {
		key, base := v.variables()
		all = append(all, key, base)
	}
	return strings.Join(all, ", ")
}
