package tool

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// traps makes a workspace with links, files and skills that lead out of it, and gives
// the paths of the links. Outside are "secret", "away/secret" and "away/deep/secret".
func traps(t *testing.T) (w *Workspace, links []string) {
	t.Helper()
	w = setup(t, "in/file", "inside\n", ".coppice/skills/good/SKILL.md", "---\nname: good\ndescription: d\n---\nbody", ".git", "gitdir: ../away\n")
	parent := filepath.Dir(w.Dir())
	write(t, filepath.Join(parent, "away/deep/secret"), secret)
	write(t, filepath.Join(parent, "away/evil/SKILL.md"), "---\nname: evil\ndescription: "+secret+"\n---\n"+secret)
	cwd, err := os.Getwd()
	must(t, err)
	toCwd, err := filepath.Rel(cwd, parent)
	must(t, err)
	for _, link := range [][2]string{
		{"to-file", "../secret"}, {"to-dir", "../away"}, {"to-up", ".."}, {"to-upup", "../.."}, {"to-root", "/"}, {"to-abs", parent}, {"to-abs-file", parent + "/secret"},
		{"to-back", "../ws/../secret"}, {"in/to-file", "../../secret"}, {"in/to-link", "../to-file"}, {"in/to-dir", "../to-dir"},
		{"to-dots", "./././../secret"}, {"to-slashes", "..//..//" + filepath.Base(filepath.Dir(parent)) + "/" + filepath.Base(parent) + "/secret"},
		{"to-proc-cwd", "/proc/self/cwd/" + toCwd}, {"to-proc-root", "/proc/self/root" + parent}, {"to-proc-thread", "/proc/thread-self/root" + parent},
		{"to-proc-rel", strings.Repeat("../", 20) + "proc/self/root" + parent}, {"to-fd", "/proc/self/fd"}, {"to-dev", "/dev/fd"}, {"to-itself", "to-itself"},
		{"to-trailing", "../secret/"}, {"to-space", " ../secret"}, {"to-nowhere", "../not-there-yet"}, {"to-nowhere-dir", "../away/new/"},
		{".coppice/skills/evil", "../../../away/evil"}, {".coppice/skills/good/to-file", "../../../../secret"}, {".coppice/skills/good/to-dir", "../../../../away"},
	} {
		must(t, os.Symlink(link[1], filepath.Join(w.Dir(), link[0])))
		links = append(links, link[0])
	}
	for i := range 30 { // a chain, as long as is followed and longer
		must(t, os.Symlink(fmt.Sprintf("chain-%d", i+1), filepath.Join(w.Dir(), fmt.Sprintf("chain-%d", i))))
		if i%7 == 0 {
			links = append(links, fmt.Sprintf("chain-%d", i))
		}
	}
	must(t, os.Symlink("../away", filepath.Join(w.Dir(), "chain-30")))
	return w, links
}

// pathForms gives the paths that somebody might try who wants out of a workspace.
func pathForms(w *Workspace, links []string) []string {
	parent := filepath.Dir(w.Dir())
	steps := []string{
		"../", "./../", ".//../", "..//", "..///", "../.././" + filepath.Base(parent) + "/", "in/../../", "in/./../../", "in//..//../", "in/file/../../../",
		"missing/../../", "./in/.././../", ".../", "..../", ".. /", " ../", "../ ", "..\t/", "..\n/", "..\r\n/", "..\x00/", "\x00../", "..\x7f/", "..\x1b/",
		`..\`, `.\..\`, `in\..\..\`, `..\/`, "..;/", "..:/", "..::$DATA/", "..|", "%2e%2e/", "%2e%2e%2f", "..%2f", "%252e%252e%252f", "..%5c", "..%00/", "..%c0%af", "%c0%ae%c0%ae/",
		"..%u2215", "..\xc0\xaf", "\xc0\xae\xc0\xae/", "\xff../", "\u2025/", "\u2024\u2024/", "\uff0e\uff0e/", "\u3002\u3002/", "..\u2215", "..\u2044", "..\uff0f", "..\u29f8", "..\u200b/", "\u200b../",
		"\u202e../", "\ufeff../", ".\u0301./", "..\u00a0/", "~/../", "~", "~root/", "$HOME/../", "${PWD}/../", "$(pwd)/../", "`pwd`/../", "%USERPROFILE%/", "{..,}/", "[.][.]/", "?" + "./", "*/../../",
		"file://" + parent + "/", "file:" + parent + "/", "file://localhost" + parent + "/", "http://localhost/../", "C:\\..\\", "C:/../", `\\?\C:\`, `\\.\`, "//?/", "AUX:/../",
		parent + "/", "/" + parent + "/", "//" + parent + "/", w.Dir() + "/../", w.Dir() + "//..//", w.Dir() + "/in/../../", w.Dir() + "/./../", w.Dir() + "/../ws/../", w.Dir() + "x/../", w.Dir() + "\x00/../",
		strings.ToUpper(w.Dir()) + "/../", "/proc/self/cwd/../", "/proc/self/root" + parent + "/", "/proc/thread-self/root" + parent + "/", "/proc/1/root" + parent + "/", "/dev/fd/../../" + parent + "/",
		strings.Repeat("../", 40) + parent + "/", strings.Repeat("in/../", 200) + "../", strings.Repeat("a", 255) + "/../../", strings.Repeat("a", 256) + "/../../", strings.Repeat("x/", 100) + strings.Repeat("../", 101),
		".git/../../", ".git/", ".coppice/../../", ".coppice/skills/good/../../../../",
	}
	for i := range 12 {
		steps = append(steps, fmt.Sprintf("/proc/self/fd/%d/../", i))
	}
	for _, link := range links {
		steps = append(steps, link+"/", link+"/../", link+"/./", "in/../"+link+"/", w.Dir()+"/"+link+"/", link)
	}
	tails := []string{"secret", "secret/.", "away/secret", "deep/secret", "SECRET", "secret. ", "", "ws/../secret"}
	var forms []string
	for _, step := range steps {
		for _, tail := range tails {
			if len(step)+len(tail) > 0 {
				forms = append(forms, step+tail)
			}
		}
	}
	forms = append(forms, "/", "//", "/.", "/..", "..", ".. ", "../", "/etc/passwd", "/dev/stdin", "/dev/zero", strings.Repeat("../", 1300)+"secret", strings.Repeat("a/", 2000)+"secret")
	slices.Sort(forms)
	return slices.Compact(forms)
}

// seenBefore has a model that has seen the secret under a path, so that no edit is refused
// because it has not.
func seenBefore(path string) iter.Seq[Past] {
	return func(yield func(Past) bool) {
		input, err := json.Marshal(map[string]string{"path": path})
		if err == nil {
			yield(Past{Tool: readName, Input: input, Text: withVersion("1", versionOf(secret))})
		}
	}
}

// tries are the ways to use a path.
func tries(t *testing.T, w *Workspace) map[string]func(path string) string {
	skills, some := NewSkill(t.Context(), w.SkillPlaces(), nil)
	if !some {
		t.Fatal("there are no skills")
	}
	if told := skills.Spec().Description; strings.Contains(told, secret) {
		t.Errorf("a skill outside was found: %s", told)
	}
	use := func(tool Tool, input map[string]string) func(path string) string {
		return func(path string) string {
			filled := map[string]string{}
			for k, v := range input {
				filled[k] = strings.ReplaceAll(v, "PATH", path)
			}
			raw, err := json.Marshal(filled)
			must(t, err)
			done, ok := tool.Call(t.Context(), Call{Input: raw, Workspace: w, Past: seenBefore(path)}).(Done)
			if !ok {
				t.Fatalf("%s: not done", path)
			}
			return done.Text
		}
	}
	builtin := func(name string, input map[string]string) func(path string) string {
		tool, _ := Lookup(Builtin(), name)
		return use(tool, input)
	}
	return map[string]func(path string) string{
		"ls":            builtin("ls", map[string]string{"path": "PATH"}),
		"glob":          builtin("glob", map[string]string{"pattern": "**", "path": "PATH"}),
		"glob pattern":  builtin("glob", map[string]string{"pattern": "PATH"}),
		"glob below":    builtin("glob", map[string]string{"pattern": "PATH/**"}),
		"grep":          builtin("grep", map[string]string{"pattern": "", "path": "PATH", "output_mode": "content"}),
		"grep all":      builtin("grep", map[string]string{"pattern": ".", "glob": "PATH", "output_mode": "content"}),
		"read":          builtin("read", map[string]string{"path": "PATH"}),
		"write":         builtin("write", map[string]string{"path": "PATH", "content": "overwritten"}),
		"edit":          builtin("edit", map[string]string{"path": "PATH", "old_string": "secret", "new_string": "changed"}),
		"skill":         use(skills, map[string]string{"name": "PATH"}),
		"skill file":    use(skills, map[string]string{"name": "good", "file": "PATH"}),
		"context_files": func(path string) string { return strings.Join(w.contextParts(t.Context(), "", []string{path}), "\n") },
	}
}

// TestPathForms tries every form of a path with every tool that takes one: what is
// outside is neither read nor changed.
func TestPathForms(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it makes files by the thousand")
	}
	w, links := traps(t)
	parent := filepath.Dir(w.Dir())
	outside := func() string {
		var all strings.Builder
		for _, name := range []string{"secret", "away"} {
			all.WriteString(everything(t, filepath.Join(parent, name)))
		}
		entries, err := os.ReadDir(parent)
		must(t, err)
		return fmt.Sprint(entries, all.String())
	}
	before, inside := outside(), paths(t, w.Dir())
	calls, got, forms := 0, 0, pathForms(w, links)
	all := tries(t, w)
	for _, path := range forms {
		for name, try := range all {
			calls++
			// A file's content, or the names of what is outside.
			said := try(path)
			if strings.Contains(said, secret) || listsOutside(name, said) {
				got++
				t.Errorf("%s %q: %.300s", name, path, said)
			}
			if strings.HasPrefix(said, "Made the file") {
				sweep(t, w.Dir(), inside)
			}
		}
		if after := outside(); after != before {
			t.Fatalf("%q: outside was\n%s\nis\n%s", path, before, after)
		}
	}
	for _, name := range []string{"secret", "away/secret", "away/deep/secret"} {
		if text, err := os.ReadFile(filepath.Join(parent, name)); err != nil || string(text) != secret {
			t.Errorf("%s holds %q, %v", name, text, err)
		}
	}
	if len(forms) < 500 {
		t.Errorf("only %d forms", len(forms))
	}
	t.Logf("%d path forms, %d calls of %d kinds: %d got out", len(forms), calls, len(all), got)
}

// paths gives all that is below a directory.
func paths(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		all = append(all, name)
		return err
	}))
	return all
}

// sweep removes what is below a directory and was not there.
func sweep(t *testing.T, dir string, there []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || slices.Contains(there, name) {
			return err
		}
		if err := os.RemoveAll(name); err != nil || !d.IsDir() {
			return err
		}
		return fs.SkipDir
	}))
}

// listsOutside reports whether a listing shows what is only outside: the directory
// away/evil, or the workspace itself from above.
func listsOutside(try, said string) bool {
	if try != "ls" && !strings.HasPrefix(try, "glob") {
		return false
	}
	return slices.ContainsFunc(strings.Split(said, "\n"), func(line string) bool {
		return line == "ws/" || line == "evil/" || strings.HasSuffix(line, "evil/SKILL.md")
	})
}

// A hard link is the file itself, and no path tells. But a change makes a new file in
// its place: what is outside stays.
func TestHardLinksAreNotWrittenThrough(t *testing.T) {
	t.Parallel()
	w := setup(t, ".coppice/skills/good/SKILL.md", "---\nname: good\ndescription: d\n---\nbody")
	outside := filepath.Join(filepath.Dir(w.Dir()), "secret")
	must(t, os.Link(outside, filepath.Join(w.Dir(), "hard")))
	all := tries(t, w)
	for _, name := range []string{"write", "edit"} {
		if said := all[name]("hard"); !strings.Contains(said, "[version ") {
			t.Errorf("%s: %s", name, said)
		}
		if text, err := os.ReadFile(outside); err != nil || string(text) != secret {
			t.Errorf("%s: outside is %q, %v", name, text, err)
		}
		must(t, os.Remove(filepath.Join(w.Dir(), "hard")))
		must(t, os.Link(outside, filepath.Join(w.Dir(), "hard")))
	}
}
