package scripted_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/tree"
)

// world plays the tools of a tree of agents on files held in memory.
type world struct {
	t     *testing.T
	model *scripted.Model
	files map[string]string
	// bound is how many lines a listing has at most; 0 is any number.
	bound int
	// lost tells why the explorer of a folder fails.
	lost map[string]string

	tasks  []string          // the folders that got an explorer, with depth
	said   map[string]string // the results of the explorers, by folder
	behind string            // what the agent in the background said
	seen   []tree.Message    // by the root
}

func allTools() []model.ToolSpec {
	var specs []model.ToolSpec
	for _, name := range []string{"ls", "glob", "grep", "read", "task"} {
		specs = append(specs, model.ToolSpec{Name: name})
	}
	return specs
}

// run plays a task to its end and gives its last text.
func (w *world) run(agent string, depth int, prompt string) string {
	req := &model.Request{Agent: agent, Depth: depth, Tools: allTools(), Messages: []tree.Message{said(prompt)}}
	for range 10 {
		answer := w.ask(req)
		calls := tree.Message{Role: tree.RoleAssistant, Blocks: answer.Blocks}
		if answer.Stop == tree.StopEndTurn {
			return calls.Text()
		}
		if depth == 0 {
			w.seen = req.Messages
		}
		results := tree.Message{Role: tree.RoleTool}
		for i, b := range answer.Blocks {
			if use, ok := b.(tree.ToolUse); ok {
				text, failed := w.call(use, depth)
				results.Blocks = append(results.Blocks, tree.ToolResult{Block: i, Text: text, IsError: failed})
			}
		}
		req.Messages = append(req.Messages, calls, results)
	}
	w.t.Fatal("no end after 10 answers")
	return ""
}

// ask checks on the way that the same request has the same answer, and that the
// deltas put together are the text.
func (w *world) ask(req *model.Request) *model.Answer {
	w.t.Helper()
	var streamed string
	answer, err := w.model.Generate(w.t.Context(), req, func(d model.Delta) { streamed += d.Text })
	if err != nil {
		w.t.Fatal(err)
	}
	if text := (&tree.Message{Blocks: answer.Blocks}).Text(); streamed != text {
		w.t.Fatalf("streamed %q, answered %q", streamed, text)
	}
	again, err := scripted.New(scripted.Survey()).Generate(w.t.Context(), req, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if fmt.Sprintf("%#v", answer) != fmt.Sprintf("%#v", again) {
		w.t.Fatalf("the same request was answered\n%#v\nand then\n%#v", answer, again)
	}
	return answer
}

func (w *world) call(use tree.ToolUse, depth int) (text string, failed bool) {
	var in struct {
		Path, Pattern, Glob, Prompt string
		OutputMode                  string `json:"output_mode"`
		SubagentType                string `json:"subagent_type"`
	}
	if err := json.Unmarshal(use.Input, &in); err != nil {
		w.t.Fatalf("the input of %s: %v", use.Name, err)
	}
	in.Path = path.Clean(in.Path)
	switch use.Name {
	case "ls":
		return w.cut(w.ls(in.Path), "The directory is empty"), false
	case "glob":
		return w.cut(w.under(in.Path, in.Pattern == "*"), "No files found"), false
	case "grep":
		return w.cut(w.count(in.Pattern, w.under(in.Path, in.Glob != "")), "No matches found"), false
	case "read":
		first, _, _ := strings.Cut(w.files[in.Path], "\n")
		return "     1\t" + first, false
	case "task":
		return w.task(in.SubagentType, in.Prompt, depth+1)
	}
	w.t.Fatalf("no tool %q", use.Name)
	return "", false
}

func (w *world) task(agent, prompt string, depth int) (string, bool) {
	switch {
	case strings.HasPrefix(prompt, "Find the README"):
		w.behind = w.run(agent, depth, prompt)
		return `{"task_id":"b","status":"async_launched"}`, false
	case strings.HasPrefix(prompt, "Of what you have seen"):
		answer := w.ask(&model.Request{Agent: agent, Depth: depth, Tools: allTools(), Messages: append(slices.Clone(w.seen), said(prompt))})
		text, err := json.Marshal(map[string]any{"task_id": "f", "status": "completed", "summary": (&tree.Message{Blocks: answer.Blocks}).Text()})
		if err != nil {
			w.t.Fatal(err)
		}
		return string(text), false
	}
	folder := regexp.MustCompile(`path=(.*)`).FindStringSubmatch(prompt)[1]
	w.tasks = append(w.tasks, fmt.Sprintf("%d %s", depth, folder))
	outcome := map[string]any{"task_id": "t", "status": "completed"}
	if why, ok := w.lost[folder]; ok {
		outcome["status"], outcome["error"] = "failed", why
	} else {
		w.said[folder] = w.run(agent, depth, prompt)
		outcome["summary"] = w.said[folder]
	}
	text, err := json.Marshal(outcome)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text), false
}

func (w *world) cut(lines []string, none string) string {
	if len(lines) == 0 {
		return none
	}
	if w.bound > 0 && len(lines) > w.bound {
		lines = append(slices.Clone(lines[:w.bound]), "[cut: there are more]")
	}
	return strings.Join(lines, "\n")
}

// under gives the files below a folder, or only those directly in it.
func (w *world) under(folder string, direct bool) []string {
	var some []string
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		rest, ok := strings.CutPrefix(name, folder+"/")
		if folder == "." {
			rest, ok = name, true
		}
		if ok && (!direct || !strings.Contains(rest, "/")) {
			some = append(some, name)
		}
	}
	return some
}

func (w *world) ls(folder string) []string {
	seen := map[string]bool{}
	for _, name := range w.under(folder, false) {
		rest := strings.TrimPrefix(name, folder+"/")
		if dir, _, deeper := strings.Cut(rest, "/"); deeper {
			rest = dir + "/"
		}
		seen[rest] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func (w *world) count(pattern string, names []string) []string {
	re := regexp.MustCompile(pattern)
	var counts []string
	for _, name := range names {
		n := 0
		for l := range strings.Lines(w.files[name]) {
			if re.MatchString(l) {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%s:%d", name, n))
		}
	}
	return counts
}

func said(text string) tree.Message {
	return tree.Message{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: text}}}
}

// file makes a file of so many lines, todos of which say TODO.
func file(lines, todos int) string {
	var b bytes.Buffer
	for i := range lines {
		if i < todos {
			b.WriteString("// TODO: ")
		}
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func newWorld(t *testing.T, files map[string]string) *world {
	return &world{t: t, model: scripted.New(scripted.Survey()), files: files, said: map[string]string{}}
}

// large is a repository in which pkg is surveyed in two levels.
func large() map[string]string {
	files := map[string]string{
		"README.md": file(12, 1), "go.mod": file(5, 0), ".ci/x.yml": file(3, 0), "empty.txt": "",
		"cmd/main.go": file(40, 2), "docs/a|b.md": file(7, 0), "docs/none.md": "",
	}
	for i := range 8 {
		for j := range i + 1 {
			files[fmt.Sprintf("pkg/p%d/f%d.go", i, j)] = file(10+i+j, j)
		}
	}
	files["pkg/doc.go"] = file(3, 0)
	files["pkg/p7/deep/er/long.go"] = file(99, 0)
	return files
}

// figures counts what a report has to say about the files under a folder.
func figures(w *world, folder string, direct bool) string {
	files := w.under(folder, direct)
	lines, todos, most, longest := 0, 0, 0, "–"
	for _, name := range files {
		n := strings.Count(w.files[name], "\n")
		lines += n
		todos += strings.Count(w.files[name], "TODO")
		if n > most {
			most, longest = n, fmt.Sprintf("%s (%d)", strings.ReplaceAll(name, "|", `\|`), n)
		}
	}
	return fmt.Sprintf("| %d | %d | %s | %d |", len(files), lines, longest, todos)
}

func wants(t *testing.T, report string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(report, part) {
			t.Errorf("the report lacks %q", part)
		}
	}
	if t.Failed() {
		t.Log(report)
	}
}

func TestSurveyCountsTruly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, large())
		start := time.Now()
		report := w.run("general-purpose", 0, "Survey this repository")
		delete(w.files, ".ci/x.yml") // hidden folders are left out
		plain := strings.ReplaceAll(report, "*", "")
		wants(t, plain,
			"| cmd/ "+figures(w, "cmd", false),
			"| docs/ "+figures(w, "docs", false),
			"| pkg/ "+figures(w, "pkg", false),
			"| (top-level files) "+figures(w, ".", true),
			"| total "+figures(w, ".", false),
			"scripted demo model; no provider key",
			"Hidden folders were left out: .ci.",
		)
		if strings.Contains(report, "≥") || strings.Contains(report, "You asked") {
			t.Errorf("the report takes back too much:\n%s", report)
		}
		want := []string{"1 cmd", "1 docs", "1 pkg", "2 pkg/p2", "2 pkg/p3", "2 pkg/p4", "2 pkg/p5", "2 pkg/p6", "2 pkg/p7"}
		if slices.Sort(w.tasks); !slices.Equal(w.tasks, want) {
			t.Errorf("explorers went to %v, not to %v", w.tasks, want)
		}
		// Here one task runs after the other, and each answer is asked for twice.
		if each := time.Since(start) / time.Duration(2*(len(want)+1)); each > 4*time.Second {
			t.Errorf("a task takes %v", each)
		}
	})
}

// Listings that were cut are made up for by more explorers, and where that is not
// enough the report says that there is more.
func TestSurveyOfCutListings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, large())
		w.bound = 10
		report := w.run("general-purpose", 0, "Survey this repository")
		wants(t, report, "| pkg/ "+figures(w, "pkg", false), "Hidden")
		if !slices.Contains(w.tasks, "2 pkg/p0") || strings.Contains(report, "≥") {
			t.Errorf("explorers went to %v\n%s", w.tasks, report)
		}

		w = newWorld(t, large())
		w.bound = 7
		report = w.run("general-purpose", 0, "Survey this repository")
		wants(t, report, "| cmd/ "+figures(w, "cmd", false), "| pkg/ | ≥ ", "**≥ ", "“≥” marks figures that may be larger")
	})
}

// What gets no explorer because there would be too many is named in the report.
func TestSurveyNamesWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		files := map[string]string{}
		for i := range 27 {
			files[fmt.Sprintf("pkg/p%02d/a.go", i)], files[fmt.Sprintf("pkg/p%02d/b.go", i)] = file(1, 0), file(2, 0)
		}
		w := newWorld(t, files)
		w.bound = 40 // the folders can be listed, their files cannot
		report := w.run("general-purpose", 0, "Survey this repository")
		wants(t, report, "| pkg/ | ≥ 48 |",
			"- Not counted: 3 sub-folders of pkg/, because 24 explorers are the most for this demo: p24, p25, p26.")
		wants(t, w.said["pkg"], "Sub-agents surveyed 24 of its 27 sub-folders.", "p24, p25, p26.")
	})
}

func TestSurveyWithLostExplorers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, large())
		w.lost = map[string]string{"cmd": "the worker\nwas lost", "pkg/p7": "gone"}
		report := w.run("general-purpose", 0, "Survey this repository")
		wants(t, report, "`cmd` was not surveyed: the worker was lost", "| pkg/ "+figures(w, "pkg", false), "| **total** | **≥ ")
	})
}

func TestSurveyOfSmallPlaces(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"nothing":       {},
		"no folders":    {"a.txt": file(3, 1)},
		"no text":       {"bin/tool": "", "x.bin": ""},
		"hidden only":   {".git2/config": file(2, 0)},
		"odd names":     {"a b (c)/[x] $.md": file(4, 4), `q"uote/it's.md`: file(1, 0)},
		"one deep path": {"a/b/c/d/e.go": file(8, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, files)
				report := w.run("other", 0, "Write a poem\nabout trees")
				wants(t, report, "You asked: “Write a poem about trees”. I cannot answer that.", "| (top-level files) "+figures(w, ".", true))
				for _, dir := range w.ls(".") {
					if folder, ok := strings.CutSuffix(dir, "/"); ok && folder[0] != '.' {
						wants(t, report, "| "+dir+" "+figures(w, folder, false))
					}
				}
			})
		})
	}
}

// A later message plays the survey again, on what is there by then.
func TestSurveyAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]string{"a.txt": file(3, 0)})
		req := &model.Request{Agent: "general-purpose", Tools: allTools(), Messages: []tree.Message{
			said("Survey this"), {Role: tree.RoleAssistant, Blocks: []tree.Block{tree.Text{Text: "# Survey"}}}, said("And now?"),
		}}
		answer := w.ask(req)
		if answer.Stop != tree.StopToolUse {
			t.Errorf("the second message is answered with %v", answer.Blocks)
		}
	})
}

func TestSurveyWithoutTools(t *testing.T) {
	t.Parallel()
	req := &model.Request{Agent: "plain", Messages: []tree.Message{said("Hello")}}
	answer, err := scripted.New(scripted.Survey()).Generate(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, (&tree.Message{Blocks: answer.Blocks}).Text(), "scripted demo model; no provider key", "lacks some of them")
}
