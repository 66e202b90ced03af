package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	w := setup(t, "main.go", "", "b/b.go", "", "b/c/d_test.go", "", "a/x.md", "", ".ci/run.go", "",
		".git/hook.go", "", "b/.git", "", "odd[1].go", "", "b/star*/f.go", "")
	must(t, os.Symlink("b", filepath.Join(w.Dir(), "link")))
	must(t, os.Symlink("main.go", filepath.Join(w.Dir(), "main-link.go")))
	check(t, w, "glob", []toolCase{
		{`{"pattern":"**/*.go"}`, ".ci/run.go\nb/b.go\nb/c/d_test.go\nb/star*/f.go\nmain.go\nodd[1].go"},
		{`{"pattern":"*.go"}`, "main.go\nodd[1].go"},
		{`{"pattern":"./*.go"}`, "main.go\nodd[1].go"},
		{`{"pattern":"{a,b/c}/*"}`, "a/x.md\nb/c/d_test.go"},
		{`{"pattern":"*.go","path":"b"}`, "b/b.go"},
		{`{"pattern":"c/*","path":"b/"}`, "b/c/d_test.go"},
		{`{"pattern":"../main.go","path":"b"}`, "main.go"},
		{`{"pattern":"b/c/d_test.go"}`, "b/c/d_test.go"},
		{`{"pattern":"odd\\[1\\].go"}`, "odd[1].go"},
		{`{"pattern":"b/star\\*/*"}`, "b/star*/f.go"},
		{`{"pattern":"link/*.go"}`, "link/b.go"},
		{`{"pattern":"*.rs"}`, noFiles},
		{`{"pattern":"nowhere/*.go"}`, noFiles},
		{`{"pattern":"main.go/*"}`, noFiles},
		{`{"pattern":"*","path":"nowhere"}`, "error: nowhere: no such file"},
		{`{"pattern":"*","path":"main.go"}`, "error: main.go: a file; path has to name a directory"},
		{`{"pattern":"[a"}`, `error: pattern: "[a" is not a valid glob`},
		{`{"pattern":"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"}`, "error: more than 256 patterns"},
		{`{"pattern":"{\\},?,?,?,?}{\\},?,?,?,?}{\\},?,?,?,?}{\\},?,?,?,?}"}`, "error: more than 256 patterns"},
		{`{"pattern":"{[}],?,?,?,?}{[}],?,?,?,?}{[}],?,?,?,?}{[}],?,?,?,?}"}`, "error: more than 256 patterns"},
		{`{"pattern":" "}`, "error: pattern: expected a string that is not blank"},
		{`{}`, "error: pattern: missing"},
		{`{"pattern":"*","dir":"b"}`, `error: unknown field "dir": the fields are pattern, path`},
	})
}

func TestGlobIsBounded(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 400 {
		files = append(files, fmt.Sprintf("%03d/%s", i, strings.Repeat("x", 196)), "")
	}
	got := call(t, setup(t, files...), "glob", `{"pattern":"**"}`)
	lines := strings.Split(got.Text, "\n")
	last := lines[len(lines)-1]
	if want := fmt.Sprintf("[cut: the first %d files shown", len(lines)-1); !strings.HasPrefix(last, want) {
		t.Errorf("last line %q, want %q", last, want)
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]int{
		"": 1, "a,b": 1, "{a,b}": 2, "{a,b}c{d,e,f}": 6, "{a,{b,c}}": 4, "}{": 1,
		strings.Repeat("{a,b}", 100): maxAlternatives + 1,
		`{\},a}`:                     2, `{\{,a}`: 2, `{a\,b}`: 1, `\{a,b\}`: 1, `{\\,a}`: 2, `{[}],a}`: 2, `{[{],a}`: 2, `{[a,b]}`: 1,
		`{[\]},],a}`: 2, `{[^}],[!{]}`: 2, `[{,}]{a,b}`: 2,
	} {
		if got := alternatives(pattern); got != want {
			t.Errorf("%q: %d, want %d", pattern, got, want)
		}
	}
}
