package agentdef

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFiles bounds the definitions of one directory.
const maxFiles = 1000

// Library is the set of definitions of an installation: the built-in ones, those in
// directories, and those of plugins. Read reads the files again. A Library is not safe for
// concurrent use; the registries that it returns are.
type Library struct {
	// Clean removes from the text of files what must not be stored. Optional; set it before the
	// first Read.
	Clean func(text string) string

	dirs    []string
	plugins string // empty: no plugins
	files   map[string]*cachedFile
	last    *Registry
}

// cachedFile is a file as it was last read. A file that has become invalid keeps its last valid
// definition.
type cachedFile struct {
	data []byte
	def  *Definition // the last valid one; nil: there was none
	err  error       // what is wrong with data
}

// Problem is a file or directory that could not be used.
type Problem struct {
	Source string
	Err    error
	Kept   bool // its last valid definition is still in use
}

// NewLibrary returns a library of these directories. If a name is defined more than once, the
// later directory takes precedence, and every directory over the built-in definitions. The
// plugin directory contains <plugin>/agents/*.md.
func NewLibrary(dirs []string, plugins string) *Library {
	return &Library{dirs: dirs, plugins: plugins, files: map[string]*cachedFile{}}
}

// Read reads all files and returns their definitions and the problems. While the definitions do
// not change, it returns the same registry. It compares the contents of files, not their times.
func (l *Library) Read() (r *Registry, problems []Problem) {
	look := &scan{library: l, seen: map[string]*cachedFile{}}
	r = Builtin()
	for _, dir := range l.dirs {
		r = look.add(r, look.dir(dir, ""))
	}
	for _, plugin := range look.plugins() {
		r = look.add(r, look.dir(filepath.Join(l.plugins, plugin, "agents"), plugin))
	}
	l.files = look.seen
	if l.last != nil && l.last.equal(r) {
		return l.last, look.problems
	}
	l.last = r
	return r, look.problems
}

// scan is one pass over all files.
type scan struct {
	library  *Library
	seen     map[string]*cachedFile
	problems []Problem
}

func (r *scan) problem(source string, err error, kept bool) {
	r.problems = append(r.problems, Problem{Source: source, Err: err, Kept: kept})
}

// add adds definitions, whose names must be unique.
func (r *scan) add(to *Registry, definitions []*Definition) *Registry {
	all, err := to.With(definitions...)
	if err != nil {
		r.problem("", err, false)
		return to
	}
	return all
}

// plugins lists the plugins with agents, by name.
func (r *scan) plugins() []string {
	if r.library.plugins == "" {
		return nil
	}
	entries, err := os.ReadDir(r.library.plugins)
	if err != nil {
		names := r.library.cachedPlugins()
		r.problem(r.library.plugins, err, len(names) > 0)
		return names
	}
	var names []string
	for _, e := range entries {
		dir := filepath.Join(r.library.plugins, e.Name(), "agents")
		switch _, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
		case !PluginName(e.Name()):
			r.problem(dir, fmt.Errorf("the name of a plugin's directory must be 1 to 64 characters from a-z, 0-9, _ and -, got %q", e.Name()), false)
		default:
			names = append(names, e.Name())
		}
	}
	return names
}

// cachedPlugins lists the plugins with cached definitions, by name.
func (l *Library) cachedPlugins() []string {
	var names []string
	for path := range l.files {
		plugin := filepath.Dir(filepath.Dir(path))
		if name := filepath.Base(plugin); filepath.Dir(plugin) == filepath.Clean(l.plugins) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// dir returns the definitions of one directory. If it cannot be read, the cached ones stay.
func (r *scan) dir(dir, plugin string) []*Definition {
	paths, err := markdownFiles(dir)
	look := r.file
	if err != nil {
		paths, look = r.library.cachedFilesIn(dir), r.cached
		r.problem(dir, err, len(paths) > 0)
	}
	byName := map[string]*Definition{}
	var all []*Definition
	for _, path := range paths {
		d := look(path, plugin)
		if d == nil {
			continue
		}
		if other := byName[d.Name]; other != nil {
			r.problem(path, fmt.Errorf("agent %q is already defined by %s", d.Name, other.Source), false)
			continue
		}
		byName[d.Name] = d
		all = append(all, d)
	}
	return all
}

// cached returns the cached definition of a file.
func (r *scan) cached(path, _ string) *Definition {
	last := r.library.files[path]
	r.seen[path] = last
	return last.def
}

// cachedFilesIn lists the cached files of a directory.
func (l *Library) cachedFilesIn(dir string) []string {
	var paths []string
	for path := range l.files {
		if filepath.Dir(path) == filepath.Clean(dir) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// markdownFiles lists the definition files of a directory, by name.
func markdownFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".md") && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	if len(paths) > maxFiles {
		return nil, fmt.Errorf("there are %d definitions, the limit is %d", len(paths), maxFiles)
	}
	return paths, nil
}

// file returns the definition of a file, or its last valid one, or nil.
func (r *scan) file(path, plugin string) *Definition {
	last := r.library.files[path]
	data, err := readFile(path)
	if err == nil && r.library.Clean != nil {
		data = []byte(r.library.Clean(string(data)))
	}
	now := &cachedFile{data: data, err: err}
	switch {
	case err == nil && last != nil && last.data != nil && bytes.Equal(last.data, data):
		now = last
	case err == nil:
		now.def, now.err = parseFile(path, plugin, data)
	}
	if now.def == nil && last != nil {
		now.def = last.def
	}
	r.seen[path] = now
	if now.err != nil {
		r.problem(path, now.err, now.def != nil)
	}
	return now.def
}

func parseFile(path, plugin string, data []byte) (*Definition, error) {
	d, err := Parse(path, data)
	if err == nil {
		err = d.Fits()
	}
	switch {
	case err != nil:
		return nil, err
	case d.OfPlugin():
		return nil, problemAt(path, 1, "name: %q has a colon; only names of plugin agents have one, and it is added automatically", d.Name)
	case plugin != "":
		return d.Qualified(plugin), nil
	}
	return d, nil
}

// readFile reads a file up to the size limit plus one byte, which is enough to see that the
// file is too large.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // opening a pipe would block until it has a writer
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// equal reports whether both have the same definitions from the same sources.
func (r *Registry) equal(other *Registry) bool {
	return slices.EqualFunc(r.List(), other.List(), func(a, b *Definition) bool {
		return a.Name == b.Name && a.Version == b.Version && a.Source == b.Source
	})
}
