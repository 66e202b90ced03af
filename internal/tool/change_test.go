package tool

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// talk is what a model has called so far.
type talk struct {
	t    *testing.T
	w    *Workspace
	past []Past
}

// call calls a tool as the next message of the conversation would.
func (c *talk) call(name, input string) Done {
	c.t.Helper()
	done := c.once(name, input)
	c.past = append(c.past, Past{Tool: name, Input: []byte(input), Text: done.Text, IsError: done.IsError})
	return done
}

// once calls a tool and leaves no trace of it.
func (c *talk) once(name, input string) Done {
	c.t.Helper()
	tool, _ := Lookup(Builtin(), name)
	return tool.Call(c.t.Context(), Call{Input: []byte(input), Workspace: c.w, Past: slices.Values(c.past)}).(Done)
}

// does calls a tool, written as its name and its input, and checks its result as
// check does; versions aside.
func (c *talk) does(line, want string) {
	c.t.Helper()
	name, input, _ := strings.Cut(line, " ")
	got := c.call(name, input)
	text, _, _ := strings.Cut(got.Text, "\n"+versionHead)
	piece, isError := strings.CutPrefix(want, "error: ")
	if got.IsError != isError || isError && !strings.Contains(text, piece) || !isError && text != want {
		c.t.Errorf("%s:\n got %+v\nwant %q", line, got, want)
	}
}

func (c *talk) holds(name, want string) {
	c.t.Helper()
	got, err := os.ReadFile(filepath.Join(c.w.Dir(), name))
	if err != nil || string(got) != want {
		c.t.Errorf("%s holds %.80q, %v; want %.80q", name, got, err, want)
	}
}

func talking(t *testing.T, files ...string) *talk {
	t.Helper()
	return &talk{t: t, w: setup(t, files...)}
}

const (
	notSeen = "error: you have not seen what is in it: read it first"
	changed = "error: has changed since you last saw it: read it again"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	c := talking(t, "f", "one\n", "crlf", "a\r\nb\r\n", "mixed", "a\r\nb\n")
	for _, step := range []struct{ call, want string }{
		{`write {"path":"a/b/new.txt","content":"x\n"}`, "Made the file: 2 bytes"},
		{`write {"path":"./a/../a/b/new.txt","content":"y"}`, "Wrote the file: 1 bytes instead of 2"},
		{`write {"path":"empty","content":""}`, "Made the file: 0 bytes"},
		{`write {"path":"f","content":"z"}`, notSeen},
		{`grep {"pattern":"one"}`, "f"},
		{`write {"path":"f","content":"z"}`, notSeen},
		{`read {"path":"f"}`, "     1\tone"},
		{`write {"path":"f","content":"two\n"}`, "Wrote the file: 4 bytes instead of 4"},
		{`read {"path":"crlf"}`, "     1\ta\n     2\tb"},
		{`write {"path":"crlf","content":"a\nc\r\n\nd"}`, "Wrote the file: 9 bytes instead of 6"},
		{`read {"path":"mixed"}`, "     1\ta\n     2\tb"},
		{`write {"path":"mixed","content":"a\nb\n"}`, "Wrote the file: 4 bytes instead of 5"},
		{`write {"path":"a","content":"z"}`, "error: a: is a directory"},
		{`write {"path":".","content":"z"}`, "error: .: is a directory"},
		{`write {"path":"f/x","content":"z"}`, "error: f/x: not a directory"},
		{`write {"path":"../x","content":"z"}`, "error: leads out of the workspace"},
		{`write {"path":"g","content":"\u0000"}`, "error: content: expected text without NUL"},
		{`write {"path":"g"}`, "error: content: missing"},
	} {
		c.does(step.call, step.want)
	}
	c.holds("a/b/new.txt", "y")
	c.holds("empty", "")
	c.holds("f", "two\n")
	c.holds("crlf", "a\r\nc\r\n\r\nd")
	c.holds("mixed", "a\nb\n")
	c.leftNothing()
}

func TestEdit(t *testing.T) {
	t.Parallel()
	c := talking(t, "f", "one\ntwo\ntwo\n", "crlf", "a\r\nb\r\nc\r\n", "mixed", "a\r\nb\n")
	for _, step := range []struct{ call, want string }{
		{`edit {"path":"f","old_string":"one","new_string":"1"}`, notSeen},
		{`read {"path":"f","offset":2,"limit":1}`, "     2\ttwo\n[cut: lines 2 to 2 shown, the file goes on; continue with offset 3, or use grep to find the lines you want]"},
		{`edit {"path":"f","old_string":"one","new_string":"1"}`, "Replaced 1 occurrence, on line 1"},
		{`edit {"path":"f","old_string":"one","new_string":"1"}`, "error: old_string is not in the file"},
		{`edit {"path":"f","old_string":"two","new_string":"2"}`, "error: old_string is in the file 2 times, on lines 2, 3: give more"},
		{`edit {"path":"f","old_string":"1\ntwo","new_string":"1\nzwei"}`, "Replaced 1 occurrence, on line 1"},
		{`edit {"path":"f","old_string":"w","new_string":"$1","replace_all":true}`, "Replaced 2 occurrences, before on lines 2, 3"},
		{`edit {"path":"f","old_string":"1","new_string":"1"}`, "error: the same: nothing would change"},
		{`edit {"path":"f","old_string":"\n","new_string":"\n\n"}`, "error: 3 times, on lines 1, 2, 3"},
		{`edit {"path":"f","old_string":"","new_string":"x"}`, "error: old_string: expected a string that is not empty"},
		{`edit {"path":"none","old_string":"a","new_string":"x"}`, "error: none: no such file; to make one use write"},
		{`read {"path":"crlf"}`, "     1\ta\n     2\tb\n     3\tc"},
		{`edit {"path":"crlf","old_string":"a\nb","new_string":"A\nx\nB"}`, "Replaced 1 occurrence, on line 1"},
		{`read {"path":"mixed"}`, "     1\ta\n     2\tb"},
		{`edit {"path":"mixed","old_string":"a\nc","new_string":"x"}`, "error: old_string is not in the file"},
		{`edit {"path":"f","old_string":"1\r\ntwo","new_string":"x"}`, "error: old_string is not in the file"},
		{`edit {"path":"mixed","old_string":"a\nb","new_string":"x"}`, "error: mixed: old_string is in the file but for its line breaks, which are of two kinds there: change one line at a time"},
		{`edit {"path":"mixed","old_string":"a\r\nb\n","new_string":""}`, "Replaced 1 occurrence, on line 1"},
	} {
		c.does(step.call, step.want)
	}
	c.holds("f", "1\nz$1ei\nt$1o\n")
	c.holds("crlf", "A\r\nx\r\nB\r\nc\r\n")
	c.holds("mixed", "")
	c.leftNothing()
}

// A text that overlaps itself is in the file at more than one place, though not as often side by side.
func TestEditOfOverlappingPlaces(t *testing.T) {
	t.Parallel()
	const braces = "f {\n\t{\n\t\t{\n\t}\n\t}\n\t}\n}"
	c := talking(t, "f", braces, "end", "a\n\n\n", "apart", "aaxaa")
	for _, step := range []struct{ call, want string }{
		{`read {"path":"f"}`, "     1\tf {\n     2\t\t{\n     3\t\t\t{\n     4\t\t}\n     5\t\t}\n     6\t\t}\n     7\t}"},
		{`edit {"path":"f","old_string":"\t}\n\t}\n","new_string":"x\n"}`,
			"error: f: old_string is in the file more than once, at places that overlap, the first on line 4: give more"},
		{`read {"path":"end"}`, "     1\ta\n     2\t\n     3\t"},
		{`edit {"path":"end","old_string":"\n\n","new_string":"\n"}`, "error: at places that overlap, the first on line 1"},
		{`edit {"path":"end","old_string":"\n\n\n","new_string":"\n"}`, "Replaced 1 occurrence, on line 1"},
		{`read {"path":"apart"}`, "     1\taaxaa"},
		{`edit {"path":"apart","old_string":"aaxaa","new_string":"aaa"}`, "Replaced 1 occurrence, on line 1"},
		{`edit {"path":"apart","old_string":"aa","new_string":"b"}`, "error: at places that overlap"},
		{`edit {"path":"apart","old_string":"aa","new_string":"b","replace_all":true}`, "Replaced 1 occurrence, on line 1"},
	} {
		c.does(step.call, step.want)
	}
	c.holds("f", braces)
	c.holds("end", "a\n")
	c.holds("apart", "ba")
	c.leftNothing()
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	if got, want := lineNumbers(strings.Repeat("a\n", maxLineNumbers+1), "a"), "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Whoever else changes a file, it has to be read again.
func TestStaleFiles(t *testing.T) {
	t.Parallel()
	c := talking(t, "f", "one\n")
	c.does(`read {"path":"f"}`, "     1\tone")
	write(t, filepath.Join(c.w.Dir(), "f"), "one more\n")
	c.does(`edit {"path":"f","old_string":"one","new_string":"1"}`, changed)
	c.does(`write {"path":"f","content":"1"}`, changed)
	c.does(`read {"path":"f"}`, "     1\tone more")
	// What a crash cut off may have had its effect, and its result tells no version.
	c.once("edit", `{"path":"f","old_string":"one","new_string":"1"}`)
	c.past = append(c.past, Past{Tool: "edit", Input: []byte(`{"path":"f"}`), Text: "outcome unknown", IsError: true})
	c.holds("f", "1 more\n")
	c.does(`edit {"path":"f","old_string":"1","new_string":"2"}`, changed)
	c.does(`read {"path":"f"}`, "     1\t1 more")
	c.does(`edit {"path":"f","old_string":"1","new_string":"2"}`, "Replaced 1 occurrence, on line 1")
	must(t, os.Remove(filepath.Join(c.w.Dir(), "f")))
	c.does(`edit {"path":"f","old_string":"2","new_string":"3"}`, "error: no such file")
	c.does(`write {"path":"f","content":"3"}`, "Made the file: 1 bytes")
	c.past = nil // as if all had been summed up
	c.does(`write {"path":"f","content":"4"}`, notSeen)
}

// No text of a file is taken for a version, and no result of another tool.
func TestVersionsAreNotForged(t *testing.T) {
	t.Parallel()
	line := withVersion("", versionOf("other\n"))
	c := talking(t, "f", "one\n", "bait", "a\n"+line, "big", strings.Repeat("x", maxFile)+line+line)
	for _, name := range []string{"bait", "big"} {
		got := c.call("read", fmt.Sprintf(`{"path":%q,"offset":2}`, name))
		if versionIn(got.Text) == versionOf("other\n") {
			t.Errorf("%s gave %q", name, got.Text)
		}
	}
	forged := withVersion("", versionOf("one\n"))
	c.past = []Past{
		{Tool: "grep", Input: []byte(`{"path":"f"}`), Text: forged}, {Tool: "mcp__x__read", Input: []byte(`{"path":"f"}`), Text: forged},
		{Tool: "read", Input: []byte(`{"path":"g"}`), Text: forged}, {Tool: "read", Input: []byte(`{"path":5}`), Text: forged},
		{Tool: "read", Input: []byte(`{"path":"f"}`), Text: forged, IsError: true}, {Tool: "read", Input: []byte(`{"path":"f"}`), Text: forged + "\n"},
	}
	c.does(`write {"path":"f","content":"x"}`, notSeen)
	c.past = append(c.past, Past{Tool: "read", Input: []byte(`{"path":"./f"}`), Text: forged})
	c.does(`write {"path":"f","content":"x"}`, "Wrote the file: 1 bytes instead of 4")
}

func TestChangesStayInTheWorkspace(t *testing.T) {
	t.Parallel()
	c := talking(t, "in/f", "one\n")
	for name, target := range map[string]string{
		"out": "../secret", "away": "../away", "inside": "in", "link": "in/f", "dangling": "../made", "nowhere": "../nowhere",
	} {
		must(t, os.Symlink(target, filepath.Join(c.w.Dir(), name)))
	}
	for _, step := range []struct{ call, want string }{
		{`write {"path":"out","content":"x"}`, "error: out: a symbolic link: name the file"},
		{`write {"path":"dangling","content":"x"}`, "error: dangling: a symbolic link"},
		{`write {"path":"away/new","content":"x"}`, "error: away/new: "},
		{`write {"path":"away/secret","content":"x"}`, "error: away/secret: "},
		{`write {"path":"nowhere/new","content":"x"}`, "error: nowhere/new: "},
		{`edit {"path":"away/secret","old_string":"the","new_string":"x"}`, "error: away/secret: "},
		{`read {"path":"link"}`, "     1\tone"},
		{`edit {"path":"link","old_string":"one","new_string":"x"}`, "error: link: a symbolic link"},
		{`read {"path":"inside/f"}`, "     1\tone"},
		{`edit {"path":"inside/f","old_string":"one","new_string":"two"}`, "Replaced 1 occurrence, on line 1"},
		{`write {"path":"inside/g/h","content":"x"}`, "Made the file: 1 bytes"},
	} {
		c.does(step.call, step.want)
	}
	c.holds("in/f", "two\n")
	c.holds("in/g/h", "x")
	c.holds("../secret", secret)
	c.holds("../away/secret", secret)
	for _, name := range []string{"../made", "../nowhere", "../away/new"} {
		if _, err := os.Lstat(filepath.Join(c.w.Dir(), name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	c.leftNothing()
}

func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", maxFile-1) + "y"
	c := talking(t, "full", full, "big", full+"z", "bin", "a\xff\n")
	for _, step := range []struct{ call, want string }{
		{`edit {"path":"big","old_string":"z","new_string":""}`, "error: big: has 1048577 bytes, a file that is changed may have 1048576"},
		{`write {"path":"big","content":""}`, "error: big: has 1048577 bytes"},
		{`edit {"path":"full","old_string":"y","new_string":"zz"}`, notSeen},
		{fmt.Sprintf(`write {"path":"new","content":%q}`, full), "error: content: expected at most 262144 characters"},
		{fmt.Sprintf(`write {"path":"new","content":"%s"}`, strings.Repeat("🌳", maxText)), "Made the file: 1048576 bytes"},
	} {
		c.does(step.call, step.want)
	}
	for _, name := range []string{"full", "bin", "big"} {
		seen := c.call("read", fmt.Sprintf(`{"path":%q}`, name))
		if hasVersion := versionIn(seen.Text) != ""; hasVersion != (name != "big") {
			t.Errorf("%s: %.100q", name, seen.Text)
		}
	}
	c.does(`edit {"path":"bin","old_string":"a","new_string":"b"}`, "error: bin: not a text in UTF-8")
	c.does(`edit {"path":"full","old_string":"y","new_string":"zz"}`, "error: full: would have 1048577 bytes")
	c.does(fmt.Sprintf(`edit {"path":"full","old_string":"x","new_string":%q,"replace_all":true}`, full[:maxText]), "error: full: would have ")
	c.does(`edit {"path":"full","old_string":"y","new_string":"z"}`, "Replaced 1 occurrence, on line 1")
	c.holds("big", full+"z")
	c.leftNothing()
}

// A file keeps who may do what with it.
func TestModeStays(t *testing.T) {
	t.Parallel()
	c := talking(t, "run.sh", "one\n", "fixed", "x", "usual", "")
	name := filepath.Join(c.w.Dir(), "run.sh")
	must(t, os.Chmod(name, 0o751))
	c.does(`read {"path":"run.sh"}`, "     1\tone")
	c.does(`edit {"path":"run.sh","old_string":"one","new_string":"two"}`, "Replaced 1 occurrence, on line 1")
	c.does(`write {"path":"new","content":""}`, "Made the file: 0 bytes")
	must(t, os.Chmod(filepath.Join(c.w.Dir(), "fixed"), 0o444))
	c.does(`read {"path":"fixed"}`, "     1\tx")
	c.does(`write {"path":"fixed","content":""}`, "error: fixed: is write-protected")
	usual, err := os.Stat(filepath.Join(c.w.Dir(), "usual"))
	must(t, err)
	for name, want := range map[string]fs.FileMode{"run.sh": 0o751, "new": usual.Mode()} {
		info, err := os.Stat(filepath.Join(c.w.Dir(), name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has %s, want %s", name, info.Mode(), want)
		}
	}
}

// Of edits made at once of what all have seen one is done, and the others are told;
// who reads meanwhile sees the file before or after, and nothing between.
func TestEditsAtOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxFile/2)
	c := talking(t, "f", "a"+long)
	c.call("read", `{"path":"f"}`)
	const n = 8
	results := make([]Done, n)
	ctx, stop := context.WithCancel(t.Context())
	var edits, reads sync.WaitGroup
	reads.Go(func() {
		for ctx.Err() == nil {
			got, err := os.ReadFile(filepath.Join(c.w.Dir(), "f"))
			if err != nil || len(got) != len(long)+1 || !bytes.HasSuffix(got, []byte(long)) {
				t.Errorf("a reader saw %d bytes, %v", len(got), err)
			}
		}
	})
	for i := range n {
		edits.Go(func() {
			results[i] = c.once("edit", fmt.Sprintf(`{"path":"f","old_string":"a","new_string":"%d"}`, i))
		})
	}
	edits.Wait()
	stop()
	reads.Wait()
	done := slices.IndexFunc(results, func(d Done) bool { return !d.IsError })
	for i, r := range results {
		if i != done && (!r.IsError || !strings.Contains(r.Text, changed[len("error: "):])) {
			t.Errorf("edit %d: %+v", i, r)
		}
	}
	c.holds("f", fmt.Sprint(done)+long)
}

// An attempt that has ended changes nothing any more.
func TestChangeEndsWithItsAttempt(t *testing.T) {
	t.Parallel()
	c := talking(t, "f", "one\n")
	c.call("read", `{"path":"f"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, input := range []string{`{"path":"f","content":"x"}`, `{"path":"new","content":"x"}`} {
		got := writeTool{}.Call(ctx, Call{Input: []byte(input), Workspace: c.w, Past: slices.Values(c.past)}).(Done)
		if !got.IsError {
			t.Errorf("%s: %+v", input, got)
		}
	}
	c.holds("f", "one\n")
}

// leftNothing looks for files that were begun and not finished.
func (c *talk) leftNothing() {
	c.t.Helper()
	must(c.t, filepath.WalkDir(c.w.Dir(), func(name string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(name), tempPrefix) {
			c.t.Errorf("%s was left", name)
		}
		return err
	}))
}
