package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hides reports whether a path leads to an existing file that the command could not see. This
// detects files that were named without considering the sandbox.
func (s *Sandbox) Hides(path string, c Command) bool {
	confines := func(l Layer) bool { return l.On && (l.Name == LayerNamespaces || l.Name == LayerLandlock) }
	is, err := os.Stat(path)
	if err != nil || !is.Mode().IsRegular() || !slices.ContainsFunc(s.layers, confines) {
		return false
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	seen := slices.Concat(systemDirs, []string{"/proc", "/dev", c.Dir}, s.readable, c.Writable)
	return !below(filepath.Clean(path), seen) || !below(real, seen)
}

// below reports whether a path is equal to or below one of several.
func below(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
	})
}
