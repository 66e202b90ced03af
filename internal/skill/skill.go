// Package skill finds and reads skills. A skill is a folder with a file SKILL.md. The front
// matter of the file has the name of the skill and says when to use it; the body is what an
// agent reads when it uses the skill. The body may refer to other files of the folder. Folders
// and their content are untrusted: nothing outside a skill's folder can be reached through it,
// and everything is bounded.
package skill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/excerpt"
)

const (
	// MaxBytes bounds a file of a skill.
	MaxBytes = 64 << 10
	// MaxSkills bounds the skills of one place, valid or not. More are not examined.
	MaxSkills = 200
	// maxDescription bounds a description, in bytes.
	maxDescription = 1024
	// fileName is the file that makes a folder a skill.
	fileName = "SKILL.md"
)

// Place is a directory with skills.
type Place struct {
	// Name is the name to show to people.
	Name string
	// Prefix is prepended to the names of its skills.
	Prefix string
	// Open opens the directory, which may not exist.
	Open func() (*os.Root, error)
}

// Skill is a skill that was found.
type Skill struct {
	Name        string
	Description string
	place       Place
	folder      string
}

// Broken is a folder that has a SKILL.md but is not a valid skill.
type Broken struct {
	Folder string
	Err    error
}

// In returns the place for a directory outside the workspace.
func In(dir, prefix string) Place {
	return Place{Name: dir, Prefix: prefix, Open: func() (*os.Root, error) { return os.OpenRoot(dir) }}
}

// Plugins returns the places of all plugins in a directory: <plugin>/skills, with skills named
// <plugin>:<skill>. An empty dir has none.
func Plugins(dir string) ([]Place, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the plugins: %w", err)
	}
	var places []Place
	for _, e := range entries {
		if name := e.Name(); namePattern.MatchString(name) {
			places = append(places, In(filepath.Join(dir, name, "skills"), name+":"))
		}
	}
	return places, nil
}

// Find returns the skills of all places, in the order of the places and then by name. If a name
// occurs more than once, the first skill wins. When ctx ends, it returns what it has found so far.
func Find(ctx context.Context, places []Place) ([]Skill, []Broken) {
	var found []Skill
	var broken []Broken
	for _, p := range places {
		skills, wrong := p.find(ctx)
		broken = append(broken, wrong...)
		for _, s := range skills {
			if !slices.ContainsFunc(found, func(other Skill) bool { return other.Name == s.Name }) {
				found = append(found, s)
			}
		}
	}
	return found, broken
}

func (p Place) find(ctx context.Context) (found []Skill, broken []Broken) {
	root, err := p.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []Broken{{p.Name, err}}
	}
	defer root.Close()
	entries, more, err := firstEntries(ctx, root, ".", maxEntries)
	if err != nil {
		return nil, []Broken{{p.Name, err}}
	}
	for _, e := range entries {
		folder := e.Name()
		if ctx.Err() != nil {
			return found, broken
		}
		if strings.HasPrefix(folder, ".") {
			continue
		}
		info, err := root.Stat(path.Join(folder, fileName))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if len(found)+len(broken) == MaxSkills {
			return found, append(broken, Broken{p.Name, fmt.Errorf("more than %d skills", MaxSkills)})
		}
		s := Skill{place: p, folder: folder}
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("not a file")
		}
		if err == nil {
			err = s.describe(root)
		}
		if err != nil {
			broken = append(broken, Broken{path.Join(p.Name, folder), err})
			continue
		}
		found = append(found, s)
	}
	if more {
		broken = append(broken, Broken{p.Name, fmt.Errorf("more than %d entries", maxEntries)})
	}
	return found, broken
}

// describe reads name and description from the skill's file.
func (s *Skill) describe(root *os.Root) error {
	text, err := read(root, path.Join(s.folder, fileName))
	if err != nil {
		return err
	}
	front, _, err := split(text)
	if err != nil {
		return err
	}
	said, err := stringFields(front, "name", "description")
	if err != nil {
		return fmt.Errorf("%s: %w", fileName, err)
	}
	name, description := said["name"], strings.Join(strings.Fields(said["description"]), " ")
	switch {
	case !namePattern.MatchString(name):
		return fmt.Errorf("%s: name: expected 1 to 64 of a-z, 0-9, _ and -, got %.100q", fileName, name)
	case description == "":
		return fmt.Errorf("%s: description: expected a sentence on when to use the skill", fileName)
	}
	s.Name, s.Description = s.place.Prefix+name, excerpt.Short(description, maxDescription)
	return nil
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// split separates front matter and body.
func split(text string) (front, body string, err error) {
	const fence = "---"
	lines := strings.SplitAfter(text, "\n")
	isFence := func(line string) bool { return strings.TrimRight(line, " \t\n") == fence }
	if !isFence(lines[0]) {
		return "", "", fmt.Errorf("%s: line 1: expected %q at the start of the front matter", fileName, fence)
	}
	for i, line := range lines[1:] {
		if isFence(line) {
			return strings.Join(lines[1:i+1], ""), strings.Trim(strings.Join(lines[i+2:], ""), "\n"), nil
		}
	}
	return "", "", fmt.Errorf("%s: expected %q at the end of the front matter", fileName, fence)
}

// Content is what a skill consists of.
type Content struct {
	Body  string   // of SKILL.md, after the front matter
	Files []string // the names of the other files
	Cut   bool     // there may be more files than are listed
}

// Load returns the content of a skill.
func (s *Skill) Load(ctx context.Context) (c Content, err error) {
	err = s.inFolder(func(root *os.Root) error {
		text, err := read(root, fileName)
		if err != nil {
			return err
		}
		if _, c.Body, err = split(text); err != nil {
			return err
		}
		l := lister{root: root, left: maxEntries}
		err = l.list(ctx, ".", 0)
		c.Files, c.Cut = l.files, l.cut
		return err
	})
	return c, err
}

// File reads another file of the skill's folder.
func (s *Skill) File(name string) (text string, err error) {
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q leads out of the skill's folder", name)
	}
	err = s.inFolder(func(root *os.Root) error {
		text, err = read(root, name)
		return err
	})
	return text, err
}

// inFolder calls do with the opened folder of the skill.
func (s *Skill) inFolder(do func(*os.Root) error) error {
	place, err := s.place.Open()
	if err != nil {
		return err
	}
	defer place.Close()
	folder, err := place.OpenRoot(s.folder)
	if err != nil {
		return err
	}
	defer folder.Close()
	return do(folder)
}

// read reads a text file. It never blocks: anything except a regular file is rejected.
func read(root *os.Root, name string) (string, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", trimPathError(name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return "", trimPathError(name, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: not a file", name)
	case info.Size() > MaxBytes:
		return "", fmt.Errorf("%s: has %d bytes, at most %d are loaded", name, info.Size(), MaxBytes)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	switch {
	case err != nil:
		return "", trimPathError(name, err)
	case len(data) > MaxBytes:
		return "", fmt.Errorf("%s: at most %d bytes are loaded", name, MaxBytes)
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return "", fmt.Errorf("%s: not a text in UTF-8", name)
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(data), "\ufeff")), nil
}

// trimPathError removes the system call from an error.
func trimPathError(name string, err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
