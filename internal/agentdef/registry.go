package agentdef

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// builtinSource is the source of the definitions that come with the program.
const builtinSource = "built-in"

//go:embed builtin/*.md
var builtinFiles embed.FS

// Registry is a set of definitions by name. It never changes, so it may be used
// by many goroutines at once.
type Registry struct{ byName map[string]*Definition }

// NewRegistry makes a set of parsed definitions. Two of one name are an error.
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

// Builtin gives the definitions that come with the program: general-purpose,
// explore, guide and plan. It panics if one of them is broken, which a test rules out.
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

// With gives a set in which these definitions are added, each in place of one of
// its name, if there is one.
func (r *Registry) With(definitions ...*Definition) (*Registry, error) {
	more, err := NewRegistry(definitions...)
	if err != nil {
		return nil, err
	}
	merged := maps.Clone(r.byName)
	maps.Copy(merged, more.byName)
	return &Registry{byName: merged}, nil
}

// Get finds a definition by its name.
func (r *Registry) Get(name string) (*Definition, bool) {
	d, ok := r.byName[name]
	return d, ok
}

// List gives all definitions, sorted by name.
func (r *Registry) List() []*Definition {
	return slices.SortedFunc(maps.Values(r.byName), func(a, b *Definition) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// Spawnable gives the definitions that an agent may give tasks to, sorted by
// name. They need not include the agent itself, nor need the agent be in the set.
func (r *Registry) Spawnable(by *Definition) []*Definition {
	return slices.DeleteFunc(r.List(), func(d *Definition) bool { return !by.maySpawn(d) })
}

func (d *Definition) maySpawn(child *Definition) bool {
	if !child.Mode.Spawnable() || !d.Allows(taskTool) {
		return false
	}
	return len(d.Spawns) == 0 || slices.ContainsFunc(d.Spawns, func(glob string) bool {
		matched, err := path.Match(glob, child.Name)
		return err == nil && matched
	})
}
