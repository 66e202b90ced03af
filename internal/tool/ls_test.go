package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLs(t *testing.T) {
	t.Parallel()
	w := setup(t, "b.txt", "", "a/x", "", "a.txt", "", ".hidden", "", ".git/config", "", "a/.git", "", "new\nline", "")
	must(t, os.Mkdir(filepath.Join(w.Dir(), "empty"), 0o755))
	must(t, os.Symlink("a", filepath.Join(w.Dir(), "link")))
	check(t, w, "ls", []toolCase{
		{``, ".hidden\na.txt\na/\nb.txt\nempty/\nlink\n\"new\\nline\""},
		{`{}`, ".hidden\na.txt\na/\nb.txt\nempty/\nlink\n\"new\\nline\""},
		{`{"path":"."}`, ".hidden\na.txt\na/\nb.txt\nempty/\nlink\n\"new\\nline\""},
		{`{"path":"a/"}`, "x"},
		{`{"path":"link"}`, "x"},
		{`{"path":"a/../a/."}`, "x"},
		{`{"path":"empty"}`, "The directory is empty"},
		{`{"path":"missing"}`, "error: missing: no such file"},
		{`{"path":"b.txt"}`, "error: b.txt: not a directory"},
		{`{"path":5}`, "error: path: expected a string, got a number"},
		{`{"path":"a\u0000"}`, "error: path: expected text without NUL"},
	})
}

func TestLsIsBounded(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 400 {
		files = append(files, fmt.Sprintf("%04d%s", i, strings.Repeat("x", 196)), "")
	}
	got := call(t, setup(t, files...), "ls", `{}`)
	lines := strings.Split(got.Text, "\n")
	last := lines[len(lines)-1]
	if want := fmt.Sprintf("[cut: %d of 400 entries shown;", len(lines)-1); !strings.HasPrefix(last, want) {
		t.Errorf("last line %q, want %q", last, want)
	}
	if !strings.HasPrefix(lines[0], "0000") || len(got.Text) < maxOutput-1000 {
		t.Errorf("%d bytes from %.10q", len(got.Text), lines[0])
	}
}
