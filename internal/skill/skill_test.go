package skill

import (
	"os"
	"path/filepath"
	"strings"
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
	found, broken := Find([]Place{In(filepath.Join(dir, "skills"), ""), In(filepath.Join(dir, "nowhere"), "")})
	if len(broken) > 0 || len(found) != 2 || found[0].Name != "dos" || found[1].Name != "good" || found[1].Description != "to do good" {
		t.Fatalf("%+v, %v", found, broken)
	}
	body, files, err := found[1].Load()
	if err != nil || body != "Do good." || strings.Join(files, " ") != "more/help.md" {
		t.Errorf("%q, %q, %v", body, files, err)
	}
	if text, err := found[1].File("more/help.md"); err != nil || text != "help" {
		t.Errorf("%q, %v", text, err)
	}
	if body, _, err := found[0].Load(); err != nil || body != "Text" {
		t.Errorf("%q, %v", body, err)
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
		found, broken := Find([]Place{In(dir, "")})
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
	found, broken := Find([]Place{In(dir, "")})
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
	if found, broken := Find(places); len(broken) > 0 || len(found) != 1 || found[0].Name != "one:good" {
		t.Errorf("%+v, %v", found, broken)
	}
	if places, err := Plugins(""); err != nil || places != nil {
		t.Errorf("no directory: %v, %v", places, err)
	}
	if _, err := Plugins(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a directory that is not there")
	}
}

func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, a := range "abcdefghijklmno" {
		for _, b := range "abcdefghijklmno" {
			name := string([]rune{a, b})
			write(t, dir, map[string]string{name + "/SKILL.md": "---\nname: " + name + "\ndescription: d\n---\n"})
		}
	}
	if found, broken := Find([]Place{In(dir, "")}); len(found) != MaxSkills || len(broken) != 1 {
		t.Errorf("%d skills, %v", len(found), broken)
	}
}
