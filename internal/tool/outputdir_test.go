package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

var namedFile = regexp.MustCompile(`in the file (\S+)\]`)

// excerptOf gives the excerpt of a text, and the file that it names.
func excerptOf(t *testing.T, w *Workspace, tool, text string, limit int) (got, file string) {
	t.Helper()
	got = w.Excerpt(tool, text, limit)
	if len(got) > limit || !utf8.ValidString(got) {
		t.Errorf("%d bytes, at most %d, or no UTF-8", len(got), limit)
	}
	if m := namedFile.FindStringSubmatch(got); m != nil {
		file = m[1]
	}
	return got, file
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	short := strings.Repeat("é", 500)
	if got, file := excerptOf(t, w, "x", short, len(short)); got != short || file != "" {
		t.Errorf("a text that fits: %q in %q", got, file)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), ".coppice")); err == nil {
		t.Error("something was kept of a text that fits")
	}
	for _, long := range []string{
		strings.Repeat("a line with an é\n", 10_000), strings.Repeat("é", 50_000), strings.Repeat("x", 30_001),
	} {
		got, file := excerptOf(t, w, "mcp__some server__../get", long, 30_000)
		if !strings.HasPrefix(file, OutputDir+"/mcp__some_server_____get-") {
			t.Errorf("the file is %q", file)
		}
		kept, err := os.ReadFile(filepath.Join(w.Dir(), file))
		must(t, err)
		if string(kept) != long {
			t.Errorf("%d bytes are kept of %d", len(kept), len(long))
		}
		head, tail, _ := strings.Cut(got, "\n[cut: ")
		_, tail, _ = strings.Cut(tail, "]\n")
		if !strings.HasPrefix(long, head) || !strings.HasSuffix(long, tail) || len(head) < 15_000 || len(tail) < 5_000 {
			t.Errorf("the head has %d bytes, the tail %d", len(head), len(tail))
		}
		if want := fmt.Sprintf("[cut: %d bytes in the middle ", len(long)-len(head)-len(tail)); !strings.Contains(got, want) {
			t.Errorf("no %q", want)
		}
	}
	var none *Workspace
	if got, file := excerptOf(t, none, "x", strings.Repeat("y", 40_000), 30_000); file != "" || !strings.Contains(got, " are not shown]\n") {
		t.Errorf("without a workspace: %.100q", got)
	}
}

// What is kept is in no listing, and can be looked into all the same.
func TestKeptIsFoundByItsName(t *testing.T) {
	t.Parallel()
	w := setup(t, "own", "needle\n", ".coppice/skills/note", "needle\n")
	_, file := excerptOf(t, w, "x", strings.Repeat("hay\n", 10_000)+"needle\n", 1000)
	check(t, w, "grep", []toolCase{
		{`{"pattern":"needle"}`, ".coppice/skills/note\nown"},
		{fmt.Sprintf(`{"pattern":"needle","path":%q}`, OutputDir), file},
		{fmt.Sprintf(`{"pattern":"needle","path":%q,"output_mode":"content"}`, file), file + ":10001:needle"},
	})
	check(t, w, "glob", []toolCase{{`{"pattern":"**"}`, ".coppice/skills/note\nown"}})
	ignore, err := os.ReadFile(filepath.Join(w.Dir(), OutputDir, ".gitignore"))
	must(t, err)
	if string(ignore) != "*\n" {
		t.Errorf("git takes notice of all but %q", ignore)
	}
}

// A quiet command in the background has the oldest file, and still writes to it.
func TestTheOutputOfARunningCommandIsKept(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := outputFile("quiet")
	running, err := w.createOutput(name)
	must(t, err)
	file := filepath.Join(w.Dir(), name)
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(file, long, long))
	keep := func() {
		for range maxOutputFiles {
			excerptOf(t, w, "x", strings.Repeat("x", 2000), 1000)
		}
	}
	keep()
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file of a command that still runs: %v", err)
	}
	must(t, running.Close())
	keep()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("once the command has ended, its file is as old as others: %v", err)
	}
}

func TestKeptIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := func(name string) string { return filepath.Join(w.Dir(), OutputDir, name) }
	var oldest string
	for i := range maxOutputFiles {
		_, file := excerptOf(t, w, "x", strings.Repeat("x", 2000), 1000)
		age := time.Now().Add(time.Duration(i-maxOutputFiles) * time.Hour)
		must(t, os.Chtimes(filepath.Join(w.Dir(), file), age, age))
		if i == 0 {
			oldest = file
		}
	}
	write(t, at("mine.md"), "not a tool's")
	_, newest := excerptOf(t, w, "x", strings.Repeat("x", 2000), 1000)
	if got := len(listed(t, w)); got != maxOutputFiles {
		t.Errorf("%d files are kept, want %d", got, maxOutputFiles)
	}
	for file, want := range map[string]bool{oldest: false, newest: true, OutputDir + "/mine.md": true} {
		if _, err := os.Stat(filepath.Join(w.Dir(), file)); (err == nil) != want {
			t.Errorf("%s: there is %t, want %t", file, err == nil, want)
		}
	}
	must(t, os.Truncate(filepath.Join(w.Dir(), newest), maxOutputDirBytes)) // sparse
	_, last := excerptOf(t, w, "x", strings.Repeat("x", 2000), 1000)
	if got := listed(t, w); len(got) != 1 || OutputDir+"/"+got[0] != last {
		t.Errorf("beyond the bytes of all: %d files are kept", len(got))
	}
	got, huge := excerptOf(t, w, "x", strings.Repeat("x", maxOutputFileBytes+1), 1000)
	info, err := os.Stat(filepath.Join(w.Dir(), huge))
	must(t, err)
	if info.Size() != maxOutputFileBytes || !strings.Contains(got, fmt.Sprintf("the first %d bytes are in the file", maxOutputFileBytes)) {
		t.Errorf("a huge text: %d bytes are kept: %.200q", info.Size(), got[300:])
	}
}

// endlessDir is a directory in which there is always one more entry.
type endlessDir struct {
	fs.ReadDirFile
	entry fs.DirEntry
	read  int
}

func (d *endlessDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.read += n; d.read > 2*maxOutputScan {
		return nil, errors.New("enough is enough")
	}
	return slices.Repeat([]fs.DirEntry{d.entry}, n), nil
}

// What commands have put beside what is kept is not read to its end.
func TestScanIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, OutputDir+"/x.txt", "kept", OutputDir+"/x.o", "not ours")
	entries, err := os.ReadDir(filepath.Join(w.Dir(), OutputDir))
	must(t, err)
	for i, want := range []int{0, maxOutputScan} {
		files, err := w.outputFilesIn(&endlessDir{entry: entries[i]})
		if err != nil || len(files) != want {
			t.Errorf("%s: %d files, %v", entries[i].Name(), len(files), err)
		}
	}
}

func listed(t *testing.T, w *Workspace) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(w.Dir(), OutputDir, "x-*.txt"))
	must(t, err)
	for _, name := range found {
		names = append(names, filepath.Base(name))
	}
	return names
}

// A text that can't be kept is no reason to have no result, and nothing is written
// or removed where a link leads.
func TestKeepFails(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"a file":    func(t *testing.T, dir string) { write(t, filepath.Join(dir, ".coppice"), "mine") },
		"out":       func(t *testing.T, dir string) { must(t, os.Symlink("../away", filepath.Join(dir, ".coppice"))) },
		"elsewhere": func(t *testing.T, dir string) { must(t, os.Symlink("docs", filepath.Join(dir, ".coppice"))) },
		"out one down": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".coppice/x"), "")
			must(t, os.Symlink("../../away", filepath.Join(dir, OutputDir)))
		},
		"a file's name": func(t *testing.T, dir string) { write(t, filepath.Join(dir, OutputDir), "mine") },
	} {
		w := setup(t, "docs/old-x.txt", "mine")
		spoil(t, w.Dir())
		before := everything(t, filepath.Dir(w.Dir()))
		got, file := excerptOf(t, w, "x", strings.Repeat("x", 2000), 1000)
		if file != "" || !strings.Contains(got, "could not be kept: .coppice/output: ") {
			t.Errorf("%s: kept in %q: %q", name, file, got)
		}
		if after := everything(t, filepath.Dir(w.Dir())); after != before {
			t.Errorf("%s: was\n%sis\n%s", name, before, after)
		}
	}
}

// everything lists all that is below a directory, with sizes.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			fmt.Fprintln(&all, name, info.Size())
		}
		return err
	}))
	return all.String()
}

func TestKeepAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			text := strings.Repeat(fmt.Sprint(i), 2000)
			for range 20 {
				got := w.Excerpt("x", text, 1000)
				m := namedFile.FindStringSubmatch(got)
				if m == nil {
					t.Errorf("not kept: %q", got)
					return
				}
			}
		})
	}
	all.Wait()
	if n := len(listed(t, w)); n < maxOutputFiles || n > maxOutputFiles+8 {
		t.Errorf("%d files are kept", n)
	}
}
