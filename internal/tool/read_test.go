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

// The version is that of the whole file, also if only its beginning is shown and the lines do not
// end where the reader's buffer does.
func TestReadTellsTheVersionOfTheLargestFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{maxFile - 100, maxFile, maxFile + 1} {
		for _, width := range []int{10, 5_000, 40_000} {
			content := strings.Repeat(strings.Repeat("y", width-1)+"\n", size/width+1)[:size]
			want := versionOf(content)
			if size > maxFile {
				want = "" // no tool changes it
			}
			got := call(t, setup(t, "f", content), "read", `{"path":"f","limit":16}`)
			if version := versionIn(got.Text); got.IsError || version != want {
				t.Errorf("%d bytes in lines of %d: the version %q, want %q", size, width, version, want)
			}
		}
	}
}

// A file much larger than the memory spent on it: the hole is one line.
func TestReadStreams(t *testing.T) {
	t.Parallel()
	w := setup(t, "huge", strings.Repeat("x\n", binarySniffBytes))
	must(t, os.Truncate(filepath.Join(w.Dir(), "huge"), maxLine))
	check(t, w, "read", []toolCase{{`{"path":"huge","offset":99999}`, "error: the file has only 8193 lines"}})
}

// A line may be longer than anybody can wait for, here of a terabyte.
func TestEndlessLine(t *testing.T) {
	t.Parallel()
	before := strings.Repeat("x\n", binarySniffBytes)
	w := setup(t, "dir/endless", before+"needle", "dir/other", "needle\n")
	must(t, os.Truncate(filepath.Join(w.Dir(), "dir/endless"), 1<<40))
	const (
		line    = "needle"
		skipped = "\n[skipped: the rest of 1 files with a line of more than 67108864 bytes, after which nothing is read]"
	)
	unknown := strings.Repeat("\ufffd", grepShown-len(line))
	check(t, w, "grep", []toolCase{
		{`{"pattern":"needle","path":"dir"}`, "dir/endless\ndir/other"},
		{`{"pattern":"needle","path":"dir","output_mode":"count"}`, "dir/endless:1\ndir/other:1" + skipped},
		{`{"pattern":"x","path":"dir","output_mode":"count"}`, "dir/endless:8192" + skipped},
		{`{"pattern":"y","path":"dir/endless"}`, "No matches found" + skipped},
		{`{"pattern":"needle","path":"dir/endless","output_mode":"content"}`,
			"dir/endless:8193:needle" + unknown + "… (more than 67108364 bytes of this line not shown)" + skipped},
	})
	unknown = strings.Repeat("\ufffd", readShown-len(line))
	check(t, w, "read", []toolCase{
		{`{"path":"dir/endless","offset":8192}`, "  8192\tx\n  8193\tneedle" + unknown + "… (more than 67106864 bytes of this line not shown)\n" +
			"[cut: line 8193 is a line of more than 67108864 bytes, after which nothing is read]"},
		{`{"path":"dir/endless","offset":8194}`, "error: offset: line 8193 of the file is a line of more than 67108864 bytes, after which nothing is read"},
	})
	text, err := w.contextFile(t.Context(), "dir/endless", maxContextFileBytes)
	must(t, err)
	if want := before + "[cut: the file goes on with line 8193; read it yourself if you need the rest]\n"; text != want {
		t.Errorf("as context it ends with %.200q", text[max(0, len(text)-200):])
	}
}
