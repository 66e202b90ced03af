package agentdef

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/policy"
)

// builtinSource is the Source of built-in definitions.
const builtinSource = "built-in"

//go:embed builtin/*.md
var builtinFiles embed.FS

// Registry is an immutable set of definitions by name. It is safe for concurrent use.
type Registry struct{ byName map[string]*Definition }

// NewRegistry returns a registry of parsed definitions. Duplicate names are an error.
func NewRegistry(definitions ...*Definition) (*Registry, error) {
	r := &Registry{byName: map[string]*Definition{}}
	for _, d := range definitions {
		if d.Version == "" {
			return nil, fmt.Errorf("agent %q of %s has not been parsed", d.Name, d.Source)
		}
		if other, ok := r.byName[d.Name]; ok {
			return nil, fmt.Errorf("agent %q is defined by %s and by %s", d.Name, other.Source, d.Source)
		}
		r.byName[d.Name] = d
	}
	return r, nil
}

// Builtin returns the built-in definitions: general-purpose, explore, guide and plan. It panics
// if one is invalid, which a test rules out.
func Builtin() *Registry {
	r, err := readBuiltin()
	if err != nil {
		panic(err)
	}
	return r
}

func readBuiltin() (*Registry, error) {
	const dir = "builtin"
	files, err := builtinFiles.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read built-in agents: %w", err)
	}
	var all []*Definition
	for _, file := range files {
		data, err := builtinFiles.ReadFile(path.Join(dir, file.Name()))
		if err != nil {
			return nil, fmt.Errorf("read built-in agents: %w", err)
		}
		d, err := Parse(builtinSource, data)
		if err != nil {
			return nil, fmt.Errorf("read built-in agent %s: %w", file.Name(), err)
		}
		all = append(all, d)
	}
	return NewRegistry(all...)
}

// With returns a registry with these definitions added. They replace those of the same name.
func (r *Registry) With(definitions ...*Definition) (*Registry, error) {
	more, err := NewRegistry(definitions...)
	if err != nil {
		return nil, err
	}
	merged := maps.Clone(r.byName)
	maps.Copy(merged, more.byName)
	return &Registry{byName: merged}, nil
}

// Get returns a definition by name.
func (r *Registry) Get(name string) (*Definition, bool) {
	d, ok := r.byName[name]
	return d, ok
}

// List returns all definitions, sorted by name.
func (r *Registry) List() []*Definition {
	return slices.SortedFunc(maps.Values(r.byName), func(a, b *Definition) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// Spawnable returns the definitions that an agent may spawn, sorted by name. They may exclude
// the agent itself, and the agent need not be in the registry.
func (r *Registry) Spawnable(by *Definition) []*Definition {
	return slices.DeleteFunc(r.List(), func(d *Definition) bool { return !by.maySpawn(d) })
}

func (d *Definition) maySpawn(child *Definition) bool {
	if !child.Mode.MayBeSpawned() || !d.Allows(policy.TaskTool) {
		return false
	}
	return len(d.Spawns) == 0 || slices.ContainsFunc(d.Spawns, func(glob string) bool {
		matched, err := path.Match(glob, child.Name)
		return err == nil && matched
	})
}
