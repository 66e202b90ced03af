package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	w := setup(t, "f", "one\r\ntwo\n\nfour", "empty", "", "bin", "a\x00", "dir/x", "", "bad", "a\xff\n", "blank", "\n")
	of := func(content, shown string) string { return withVersion(shown, versionOf(content)) }
	const f = "one\r\ntwo\n\nfour"
	cut := "\n[cut: lines %d to %d shown, the file goes on; continue with offset %d, or use grep to find the lines you want]"
	check(t, w, "read", []toolCase{
		{`{"path":"f"}`, of(f, "     1\tone\n     2\ttwo\n     3\t\n     4\tfour")},
		{`{"path":"./dir/../f","offset":4}`, of(f, "     4\tfour")},
		{`{"path":"f","offset":2,"limit":2}`, of(f, "     2\ttwo\n     3\t"+fmt.Sprintf(cut, 2, 3, 4))},
		{`{"path":"f","offset":3,"limit":2}`, of(f, "     3\t\n     4\tfour")},
		{`{"path":"f","offset":5}`, "error: offset: the file has only 4 lines"},
		{`{"path":"empty"}`, of("", "The file is empty")},
		{`{"path":"blank"}`, of("\n", "     1\t")},
		{`{"path":"bad"}`, of("a\xff\n", "     1\ta\ufffd")},
		{`{"path":"bin"}`, "error: bin: a binary file"},
		{`{"path":"dir"}`, "error: dir: is a directory"},
		{`{"path":"missing"}`, "error: missing: no such file"},
		{`{"path":"f/x"}`, "error: f/x: not a directory"},
		{`{"path":""}`, "error: path: expected a string that is not blank"},
		{`{"path":"f","offset":0}`, "error: offset: expected a whole number from 1 to"},
		{`{"path":"f","limit":-1}`, "error: limit: expected a whole number from 1 to"},
		{`{"path":"f","limit":"2"}`, "error: limit: expected a whole number, got a string"},
		{`{"file_path":"f"}`, "error: path: missing, expected a string; unknown field \"file_path\": the fields are path, offset, limit"},
	})
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, "short", strings.Repeat("x\n", 5000), "wide", strings.Repeat(strings.Repeat("y", 10_000)+"\n", 100))
	for name, want := range map[string]int{"short": readLimit, "wide": 14} {
		got := call(t, w, "read", fmt.Sprintf(`{"path":%q}`, name))
		lines := strings.Split(got.Text, "\n")
		last := lines[len(lines)-2]
		if len(lines) != want+2 || !strings.HasPrefix(last, fmt.Sprintf("[cut: lines 1 to %d shown", want)) {
			t.Errorf("%s: %d lines, the last %q", name, len(lines), last)
		}
	}
}

// A file much larger than the memory spent on it: the hole is one line.
func TestReadStreams(t *testing.T) {
	t.Parallel()
	w := setup(t, "huge", strings.Repeat("x\n", binarySniffBytes))
	must(t, os.Truncate(filepath.Join(w.Dir(), "huge"), 256<<20))
	check(t, w, "read", []toolCase{{`{"path":"huge","offset":99999}`, "error: the file has only 8193 lines"}})
}
