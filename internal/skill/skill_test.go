package skill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const good = "---\nname: good\ndescription: >-\n  to do\n  good\nlicense: whatever\n---\n\nDo good.\n"

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"skills/good/SKILL.md":     good,
		"skills/good/more/help.md": "help",
		"skills/good/.git/config":  "hidden",
		"skills/dos/SKILL.md":      "\ufeff---\r\nname: dos\r\ndescription: old\r\n---\r\nText\r\n",
		"skills/.hidden/SKILL.md":  "x",
		"skills/nothing/README.md": "no skill",
		"skills/file":              "no folder",
	})
	found, broken := Find(t.Context(), []Place{In(filepath.Join(dir, "skills"), ""), In(filepath.Join(dir, "nowhere"), "")})
	if len(broken) > 0 || len(found) != 2 || found[0].Name != "dos" || found[1].Name != "good" || found[1].Description != "to do good" {
		t.Fatalf("%+v, %v", found, broken)
	}
	c, err := found[1].Load(t.Context())
	if err != nil || c.Body != "Do good." || strings.Join(c.Files, " ") != "more/help.md" || c.Cut {
		t.Errorf("%+v, %v", c, err)
	}
	if text, err := found[1].File("more/help.md"); err != nil || text != "help" {
		t.Errorf("%q, %v", text, err)
	}
	if c, err := found[0].Load(t.Context()); err != nil || c.Body != "Text" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestBrokenSkills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                              `line 1: expected "---"`,
		"---\nname: a\n":                `expected "---" at the end`,
		"---\nname: A\n---\n":           "name: expected 1 to 64",
		"---\nname: ../x\n---\n":        "name: expected 1 to 64",
		"---\nname: a\n---\nText":       "description: expected a sentence",
		"---\nname: [\n---\n":           "SKILL.md: ",
		"---\nname: {a: b}\n---\n":      "SKILL.md: ",
		"---\nname: a\xff\n---\n":       "not a text in UTF-8",
		"---\nname: a\x00\n---\n":       "not a text in UTF-8",
		strings.Repeat("x", MaxBytes+1): "has 65537 bytes, at most 65536 are loaded",
	} {
		write(t, dir, map[string]string{"s/SKILL.md": text})
		found, broken := Find(t.Context(), []Place{In(dir, "")})
		if len(found) > 0 || len(broken) != 1 || !strings.Contains(broken[0].Err.Error(), want) {
			t.Errorf("%.40q: %+v, %v, want %s", text, found, broken, want)
		}
	}
}

// TestNothingOutsideIsRead links out of a skill's folder in every way.
func TestNothingOutsideIsRead(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"secret": "secret", "evil/SKILL.md": "---\nname: evil\ndescription: d\n---\nsecret"})
	write(t, dir, map[string]string{"good/SKILL.md": good, "near/SKILL.md": "---\nname: near\ndescription: d\n---\nnear"})
	for link, to := range map[string]string{
		"good/link": outside + "/secret", "good/up": "../near/SKILL.md", "good/dir": outside, "evil": outside + "/evil",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "good/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, broken := Find(t.Context(), []Place{In(dir, "")})
	if len(found) != 2 || len(broken) != 1 {
		t.Fatalf("%+v, %v", found, broken)
	}
	for _, name := range []string{"link", "up", "dir/secret", "dir", "pipe", "../near/SKILL.md", "/etc/passwd", "", ".", "none"} {
		if text, err := found[0].File(name); err == nil || strings.Contains(err.Error(), outside+"/") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestPlugins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"one/skills/good/SKILL.md": good, "two/agents/a.md": "no skills", "Three/skills/good/SKILL.md": good,
	})
	places, err := Plugins(dir)
	if err != nil {
		t.Fatal(err)
	}
	if found, broken := Find(t.Context(), places); len(broken) > 0 || len(found) != 1 || found[0].Name != "one:good" {
		t.Errorf("%+v, %v", found, broken)
	}
	if places, err := Plugins(""); err != nil || places != nil {
		t.Errorf("no directory: %v, %v", places, err)
	}
	if _, err := Plugins(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a directory that is not there")
	}
}

// TestPlacesAreBounded: a place of broken skills costs no more than one of valid skills.
func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text          string
		found, broken int
	}{
		"valid":  {"---\nname: NAME\ndescription: d\n---\n", MaxSkills, 1},
		"broken": {"none", 0, MaxSkills + 1},
	} {
		dir := t.TempDir()
		for i := range MaxSkills + 20 {
			folder := fmt.Sprintf("s%03d", i)
			write(t, dir, map[string]string{folder + "/SKILL.md": strings.ReplaceAll(c.text, "NAME", folder)})
		}
		found, broken := Find(t.Context(), []Place{In(dir, "")})
		if len(found) != c.found || len(broken) != c.broken || !strings.Contains(broken[len(broken)-1].Err.Error(), "more than 200 skills") {
			t.Errorf("%s: %d skills, %d broken, %v", name, len(found), len(broken), broken[len(broken)-1:])
		}
	}
}

// ending is a context that has ended once it was asked some times.
type ending struct {
	context.Context
	left atomic.Int64
}

func (e *ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestReadingEndsWithItsContext in the middle of a place, and of a folder.
func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 10 {
		name := fmt.Sprintf("s%d", i)
		write(t, dir, map[string]string{
			name + "/SKILL.md":           "---\nname: " + name + "\ndescription: d\n---\n",
			"s0/" + name + "/" + "a/b/c": "",
		})
	}
	short := &ending{Context: t.Context()}
	short.left.Store(5)
	if found, _ := Find(short, []Place{In(dir, ""), In(dir, "again:")}); len(found) == 0 || len(found) > 5 {
		t.Errorf("%d skills", len(found))
	}
	found, _ := Find(t.Context(), []Place{In(dir, "")})
	short.left.Store(5)
	if c, err := found[0].Load(short); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", c, err)
	}
}
