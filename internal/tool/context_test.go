package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestContextFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.txt": "one\ntwo\n", "binary": "a\x00b", "long": strings.Repeat("line\n", maxContextFileBytes),
		"wide": strings.Repeat("x", maxContextFileBytes+10), "empty": "", "full": strings.Repeat("x", maxContextFileBytes),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	w, err := OpenWorkspace(dir)
	must(t, err)
	t.Cleanup(func() { w.Close() })

	parts := w.contextParts(t.Context(), "known", []string{"a.txt", "binary", "none", "../out", "empty", "long", "wide", ".", "full"})
	if len(parts) != 7 {
		t.Fatalf("%d parts: %.200q", len(parts), parts)
	}
	for i, want := range []string{
		"Context that comes with the task:\nknown", "File a.txt, as it was when you got the task:\none\ntwo\n",
		"File empty, as it was", "File long, as it was", "File wide, as it was",
	} {
		if !strings.HasPrefix(parts[i], want) {
			t.Errorf("part %d is %.100q", i, parts[i])
		}
	}
	for _, i := range []int{3, 4} {
		if !strings.Contains(parts[i], "[cut: the file goes on with line") || len(parts[i]) > maxContextFileBytes+200 {
			t.Errorf("part %d has %d bytes and ends %q", i, len(parts[i]), parts[i][max(0, len(parts[i])-100):])
		}
	}
	if strings.Contains(parts[5], "[cut: ") {
		t.Error("a file that has just the size that fits is cut")
	}
	failed := strings.Split(parts[6], "\n")
	for i, name := range []string{"binary", "none", "../out", "."} {
		if !strings.HasPrefix(failed[i+1], "- "+name+": ") {
			t.Errorf("failure %d is %q", i, failed[i+1])
		}
	}
}

func TestContextFilesShareABound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprint("f", i))
		must(t, os.WriteFile(filepath.Join(dir, names[i]), []byte(strings.Repeat("0123456\n", maxContextFileBytes/8)), 0o600))
	}
	w, err := OpenWorkspace(dir)
	must(t, err)
	t.Cleanup(func() { w.Close() })
	parts := w.contextParts(t.Context(), "", names)
	if n := len(parts); n != 5 || !strings.Contains(parts[4], "- f4: left out") || !strings.Contains(parts[4], "- f5: left out") {
		t.Errorf("%d parts, the last is %q", n, parts[n-1])
	}
}
