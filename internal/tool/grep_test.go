package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGrep(t *testing.T) {
	t.Parallel()
	w := setup(t,
		"a.go", "package a\n\nfunc Foo() {}\n",
		"b/b.go", "package b\r\nfunc foo() {}",
		"b/b.md", "foo\nfoo\n",
		"b/bin", "foo\x00foo\n",
		"empty", "",
		".git/HEAD", "foo\n",
		"late-nul", strings.Repeat("x\n", binarySniffBytes)+"foo\x00\xff\n",
	)
	must(t, os.Symlink("b", filepath.Join(w.Dir(), "link")))
	check(t, w, "grep", []toolCase{
		{`{"pattern":"foo"}`, "b/b.go\nb/b.md\nlate-nul"},
		{`{"pattern":"foo","case_insensitive":true}`, "a.go\nb/b.go\nb/b.md\nlate-nul"},
		{`{"pattern":"foo","case_insensitive":false}`, "b/b.go\nb/b.md\nlate-nul"},
		{`{"pattern":"a|foo","case_insensitive":true,"glob":"*.md"}`, "b/b.md"},
		{`{"pattern":"func \\w+\\(","output_mode":"content"}`, "a.go:3:func Foo() {}\nb/b.go:2:func foo() {}"},
		{`{"pattern":"b$","output_mode":"content","path":"b"}`, "b/b.go:1:package b"},
		{`{"pattern":"foo.","output_mode":"content","path":"late-nul"}`, "late-nul:8193:foo\ufffd\ufffd"},
		{`{"pattern":"^","output_mode":"count","glob":"*.{go,md}"}`, "a.go:3\nb/b.go:2\nb/b.md:2"},
		{`{"pattern":"^","output_mode":"count","path":"empty"}`, "No matches found"},
		{`{"pattern":"foo","output_mode":"count"}`, "b/b.go:1\nb/b.md:2\nlate-nul:1"},
		{`{"pattern":"foo","path":"b/b.md","output_mode":"content"}`, "b/b.md:1:foo\nb/b.md:2:foo"},
		{`{"pattern":"foo","path":"link","glob":"*.go"}`, "link/b.go"},
		{`{"pattern":"foo","path":"b","glob":"b/*.go"}`, "No matches found"},
		{`{"pattern":"foo","glob":"b/*.go"}`, "b/b.go"},
		{`{"pattern":"foo","glob":"./b/*.go"}`, "b/b.go"},
		{`{"pattern":"foo","path":"b","glob":"./*.go"}`, "b/b.go"},
		{`{"pattern":"foo","case_insensitive":true,"glob":"./*.go"}`, "a.go"},
		{`{"pattern":"foo","glob":"/b/*.go"}`, `error: glob: "/b/*.go" matches nothing: it is compared with paths relative to the directory that is searched`},
		{`{"pattern":"foo","path":"b","glob":"../*.go"}`, `error: glob: "../*.go" matches nothing`},
		{`{"pattern":"foo","path":"b/b.md","glob":"*.go"}`, "No matches found"},
		{`{"pattern":"bar"}`, "No matches found"},
		{`{"pattern":"foo","path":"b/bin"}`, "error: b/bin: a binary file"},
		{`{"pattern":"foo","path":"nowhere"}`, "error: nowhere: no such file"},
		{`{"pattern":"("}`, "error: pattern: error parsing regexp: missing closing )"},
		{`{"pattern":"(","case_insensitive":true}`, "error: pattern: error parsing regexp: missing closing )"},
		{`{"pattern":"(?:.{0,1000}a|.{0,1000}b|.{0,1000}c)"}`, "error: pattern: too large"},
		{`{"pattern":"a","glob":"[a"}`, "error: glob: "},
		{`{"pattern":"a","glob":"{\\},?,?,?,?}{\\},?,?,?,?}{\\},?,?,?,?}{\\},?,?,?,?}"}`, "error: glob: the braces stand for more than 256 patterns"},
		{`{"pattern":"a","output_mode":"lines"}`, `error: output_mode: expected one of files_with_matches, content, count, got "lines"`},
		{`{"pattern":"a","head_limit":0}`, "error: head_limit: expected a whole number from 1 to 100000, got 0"},
		{`{"pattern":"a","head_limit":1.5}`, "error: got 1.5"},
		{`{"pattern":"a","case_insensitive":"yes"}`, "error: case_insensitive: expected true or false, got a string"},
	})
}

// A byte order mark is not part of the first line.
func TestGrepByteOrderMark(t *testing.T) {
	t.Parallel()
	w := setup(t, "a.cs", "\ufeffnamespace A;\r\n\ufeffnamespace B;\r\n", "empty", "\ufeff")
	check(t, w, "grep", []toolCase{
		{`{"pattern":"^namespace","output_mode":"content"}`, "a.cs:1:namespace A;"},
		{`{"pattern":"^","output_mode":"count"}`, "a.cs:2\nempty:1"},
	})
}

func TestGrepHeadLimit(t *testing.T) {
	t.Parallel()
	w := setup(t, "a", "x\nx\n", "b", "x\n", "c", "y\n")
	cut := "\n[cut: the first %d lines of output shown, there are more; use a narrower pattern, path or glob, or another output_mode]"
	check(t, w, "grep", []toolCase{
		{`{"pattern":"x","head_limit":1}`, "a" + fmt.Sprintf(cut, 1)},
		{`{"pattern":"x","head_limit":2}`, "a\nb"},
		{`{"pattern":"x","head_limit":1,"output_mode":"count"}`, "a:2" + fmt.Sprintf(cut, 1)},
		{`{"pattern":"x","head_limit":2,"output_mode":"content"}`, "a:1:x\na:2:x" + fmt.Sprintf(cut, 2)},
		{`{"pattern":"x","head_limit":3,"output_mode":"content"}`, "a:1:x\na:2:x\nb:1:x"},
	})
}

// What is kept of a long result may be one line, as JSON is. The part that was looked for is shown.
func TestGrepShowsTheMatchInALongLine(t *testing.T) {
	t.Parallel()
	fields := func(from, to int) string {
		var out strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&out, `"%04d":"é",`, i)
		}
		return out.String()
	}
	w := setup(t, "json", fields(0, 9999), "far", strings.Repeat("x", grepLine-10)+"needle"+strings.Repeat("y", 2000))
	const field = len(`"0000":"é",`)
	check(t, w, "grep", []toolCase{
		{`{"pattern":"\"5000\"","path":"json","output_mode":"content"}`, fmt.Sprintf("json:1:(%d bytes of this line not shown) …%s", 5000*field-100,
			fields(4000, 5999)[1000*field-100:][:grepShown]) + fmt.Sprintf("… (%d bytes of this line not shown)", 5000*field+100-grepShown)},
		{`{"pattern":"\"9999.*","path":"json","output_mode":"content"}`, fmt.Sprintf("json:1:(%d bytes of this line not shown) …%s", 9999*field-100,
			fields(9000, 9999)[999*field-100:])},
		{`{"pattern":"\"0030","path":"json","output_mode":"content"}`, "json:1:" + fields(0, 999)[:grepShown] + fmt.Sprintf("… (%d bytes of this line not shown)", 10_000*field-grepShown)},
		{`{"pattern":"needle","path":"far","output_mode":"content"}`, fmt.Sprintf("far:1:(%d bytes of this line not shown) …%sneedleyyyy… (1996 bytes of this line not shown)",
			grepLine-110, strings.Repeat("x", 100))},
	})
}

func TestGrepLongLines(t *testing.T) {
	t.Parallel()
	w := setup(t, "long", strings.Repeat("é", 100_000)+"needle\nneedle\n", "many", strings.Repeat("needle\n", 10_000))
	check(t, w, "grep", []toolCase{
		{`{"pattern":"needle$","output_mode":"count"}`, "long:2\nmany:10000"},
		{`{"pattern":"needle","path":"long","output_mode":"content"}`,
			"long:1:(199900 bytes of this line not shown) …" + strings.Repeat("é", 50) + "needle\nlong:2:needle"},
		{`{"pattern":"é{3}","path":"long","output_mode":"content"}`,
			"long:1:" + strings.Repeat("é", 250) + "… (199506 bytes of this line not shown)"},
	})
	got := call(t, w, "grep", `{"pattern":"needle","output_mode":"content"}`)
	last := got.Text[strings.LastIndexByte(got.Text, '\n')+1:]
	if got.IsError || !strings.HasPrefix(last, "[cut: the first ") {
		t.Errorf("last line %q", last)
	}
}
