package agentdef

import (
	_ "embed"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/yamltree"
)

//go:embed models.yaml
var standardModels []byte

// Inherit is the name that stands for the parent's model.
const Inherit = tree.InheritModel

// Models maps the model names in calls and definitions to models. It is immutable.
type Models struct {
	entries    []modelEntry  // plain names, then globs, each in the order of the file
	defaultPin tree.ModelPin // for roots without a model; zero: the worker chooses
}

// modelEntry is an entry of the file.
type modelEntry struct {
	Name     string `yaml:"name"`
	Provider string `yaml:"provider"`
	Model    string `yaml:"model"` // empty: the requested name
}

// modelsFile is the format of the file.
type modelsFile struct {
	Default string       `yaml:"default"`
	Models  []modelEntry `yaml:"models"`
}

// StandardModels returns the built-in table. It panics if that is invalid, which a test rules
// out.
func StandardModels() *Models {
	m, err := ParseModels("models.yaml", standardModels)
	if err != nil {
		panic(err)
	}
	return m
}

// LoadModels reads the table from a file. If the path is empty, it returns the built-in one.
func LoadModels(file string) (*Models, error) {
	if file == "" {
		return StandardModels(), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the models: %w", err)
	}
	return ParseModels(file, data)
}

// ParseModels reads a table. Errors start with the source.
func ParseModels(source string, data []byte) (*Models, error) {
	var f modelsFile
	if err := yamltree.Decode(data, &f); err != nil {
		return nil, yamltree.Source{Name: source}.Syntax(err)
	}
	m := &Models{}
	for i, e := range f.Models {
		if wrong := e.check(); wrong != "" {
			return nil, fmt.Errorf("%s: entry %d of models, %q: %s", source, i+1, e.Name, wrong)
		}
		if slices.ContainsFunc(m.entries, func(other modelEntry) bool { return other.Name == e.Name }) {
			return nil, fmt.Errorf("%s: models: %q is listed twice", source, e.Name)
		}
		m.entries = append(m.entries, e)
	}
	if len(m.entries) == 0 {
		return nil, fmt.Errorf("%s: models: expected at least one entry", source)
	}
	// Plain names take precedence over globs.
	slices.SortStableFunc(m.entries, func(a, b modelEntry) int { return a.rank() - b.rank() })
	if f.Default != "" {
		var ok bool
		if m.defaultPin, ok = m.Resolve(f.Default); !ok || m.defaultPin.IsZero() {
			return nil, fmt.Errorf("%s: default: %q is not among the models", source, f.Default)
		}
	}
	return m, nil
}

func (e modelEntry) isGlob() bool { return strings.ContainsAny(e.Name, `*?[\`) }

func (e modelEntry) rank() int {
	if e.isGlob() {
		return 1
	}
	return 0
}

// check returns what is wrong with an entry, or "".
func (e modelEntry) check() string {
	if wrong := checkModel(e.Name); wrong != "" {
		return "name: " + wrong
	}
	if _, err := path.Match(e.Name, ""); err != nil {
		return "name: expected a name or a glob such as claude-*"
	}
	if e.Name == Inherit || strings.Contains(e.Name, "/") {
		return "name: " + Inherit + " and names of the form provider/model are reserved"
	}
	if checkModel(e.Provider) != "" || strings.Contains(e.Provider, "/") {
		return "provider: expected the name of a provider without spaces or slashes"
	}
	if e.Model != "" && checkModel(e.Model) != "" {
		return "model: " + checkModel(e.Model)
	}
	return ""
}

// Resolve returns the model for a name. It uses the entry with that name, otherwise the first
// matching glob, otherwise provider/model if some entry names that provider. The empty name and
// [Inherit] mean the parent's model and return the zero pin. ok is false if the name is
// unknown.
func (m *Models) Resolve(name string) (_ tree.ModelPin, ok bool) {
	if name == "" || name == Inherit {
		return tree.ModelPin{}, true
	}
	provider, own, explicit := strings.Cut(name, "/")
	for _, e := range m.entries {
		switch {
		case explicit && own != "" && e.Provider == provider:
			return tree.ModelPin{Provider: provider, Name: own}, true
		case explicit || !e.matches(name):
		case e.Model == "":
			return tree.ModelPin{Provider: e.Provider, Name: name}, true
		default:
			return tree.ModelPin{Provider: e.Provider, Name: e.Model}, true
		}
	}
	return tree.ModelPin{}, false
}

func (e modelEntry) matches(name string) bool {
	if !e.isGlob() {
		return e.Name == name
	}
	fits, err := path.Match(e.Name, name)
	return fits && err == nil
}

// First returns the model of roots for which none is named. The zero pin leaves the choice to
// the worker.
func (m *Models) First() tree.ModelPin { return m.defaultPin }

// Names lists the available names, for error messages.
func (m *Models) Names() []string {
	names := make([]string, 0, len(m.entries)+1)
	for _, e := range m.entries {
		names = append(names, e.Name)
	}
	return append(names, Inherit)
}
