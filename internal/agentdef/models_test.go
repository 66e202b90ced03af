package agentdef

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

func TestModels(t *testing.T) {
	t.Parallel()
	m, err := ParseModels("m.yaml", []byte(`
default: small
models:
  - {name: "claude-*", provider: anthropic}
  - {name: small, provider: openai, model: gpt-5-mini}
  - {name: "claude-old", provider: archive, model: claude-2}
  - {name: own, provider: house}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]tree.ModelPin{
		"small":              {Provider: "openai", Name: "gpt-5-mini"},
		"claude-x":           {Provider: "anthropic", Name: "claude-x"},
		"claude-old":         {Provider: "archive", Name: "claude-2"},
		"own":                {Provider: "house", Name: "own"},
		"house/what/ever":    {Provider: "house", Name: "what/ever"},
		"openai/gpt-5":       {Provider: "openai", Name: "gpt-5"},
		"":                   {},
		Inherit:              {},
		"anthropic/claude-x": {Provider: "anthropic", Name: "claude-x"},
	} {
		if got, ok := m.Resolve(name); !ok || got != want {
			t.Errorf("%q: %v, %t, want %v", name, got, ok, want)
		}
	}
	for _, name := range []string{"smal", "nobody/x", "openai/", "/x", "Small"} {
		if got, ok := m.Resolve(name); ok || !got.IsZero() {
			t.Errorf("%q stands for %v", name, got)
		}
	}
	if got := m.First(); got.Name != "gpt-5-mini" {
		t.Errorf("the default is %v", got)
	}
	if got := strings.Join(m.Names(), " "); got != "small claude-old own claude-* inherit" {
		t.Errorf("names: %s", got)
	}
}

func TestStandardModels(t *testing.T) {
	t.Parallel()
	m, err := ParseModels("models.yaml", standardModels)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"opus", "sonnet", "haiku", "fast", "strong", "claude-opus-4-5", "gpt-5", "o3", "scripted", "scripted/any"} {
		if pin, ok := m.Resolve(name); !ok || pin.Provider == "" || pin.Name == "" {
			t.Errorf("%s: %v", name, pin)
		}
	}
	if !m.First().IsZero() {
		t.Error("the worker no longer chooses where nobody names a model")
	}
}

func TestModelsErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                                "m.yaml: models: expected at least one entry",
		"models: {a: b}":                                  "m.yaml:1: mapping was used",
		"models: []\nmodel: x":                            "m.yaml:2: unknown field",
		"models:\n- {nam: a}":                             "m.yaml:2: unknown field",
		"models:\n- {name: [a]}":                          "m.yaml:2: cannot unmarshal",
		"models:\n- {provider: p}":                        `m.yaml: entry 1 of models, "": name: expected`,
		"models:\n- {name: a}":                            `m.yaml: entry 1 of models, "a": provider: expected`,
		"models:\n- {name: a, provider: p/q}":             `m.yaml: entry 1 of models, "a": provider: expected`,
		"models:\n- {name: a/b, provider: p}":             `m.yaml: entry 1 of models, "a/b": name: inherit and`,
		"models:\n- {name: inherit, provider: p}":         `m.yaml: entry 1 of models, "inherit": name: inherit and`,
		"models:\n- {name: '[a', provider: p}":            `m.yaml: entry 1 of models, "[a": name: expected a name or a glob`,
		"models:\n- {name: a, provider: p, model: 'x y'}": `m.yaml: entry 1 of models, "a": model: expected`,
		"models:\n- {name: a, provider: p}\n- {name: a, provider: q}": `m.yaml: models: "a" is listed twice`,
		"default: b\nmodels:\n- {name: a, provider: p}":               `m.yaml: default: "b" is not among the models`,
		"models:\n- {name: a, provider: p}\n---\ndefault: a\n":        "m.yaml:1: expected one YAML document",
		"default: inherit\nmodels:\n- {name: a, provider: p}":         `m.yaml: default: "inherit" is not among the models`,
	} {
		if m, err := ParseModels("m.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, m, err, want)
		}
	}
}

func TestLoadModels(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "models.yaml")
	if _, err := LoadModels(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(file, []byte("\ufeffmodels: [{name: a, provider: p}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, name := range map[string]string{"": "opus", file: "a"} {
		if m, err := LoadModels(path); err != nil {
			t.Error(err)
		} else if _, ok := m.Resolve(name); !ok {
			t.Errorf("%s: no %s", path, name)
		}
	}
}
