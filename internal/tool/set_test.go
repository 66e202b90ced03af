package tool

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/policy"
)

func names(tools []Tool) string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Spec().Name)
	}
	return strings.Join(names, " ")
}

// every returns each tool that comes with Coppice.
func every() []Tool {
	return append(Builtin(), NewTask(agents), NewBash(nil, false, nil), NewWebFetch(outbound.Destinations{}), NewDocs(nil),
		skillTool{spec: model.ToolSpec{Name: SkillTool, Description: skillProse, Schema: skillSchema}},
		findTool{spec: model.ToolSpec{Name: FindTool, Description: findProse, Schema: findSchema}})
}

// TestEveryIsEvery: the tests of this package look at all tools.
func TestEveryIsEvery(t *testing.T) {
	t.Parallel()
	var names []string
	for _, tool := range every() {
		names = append(names, tool.Spec().Name)
	}
	if slices.Sort(names); !slices.Equal(names, Names()) {
		t.Errorf("every has %s, and there are %s", names, Names())
	}
}

// TestArgumentsAreDocumented: the table of docs/tools.md has each argument of each tool.
func TestArgumentsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range every() {
		name := tool.Spec().Name
		var schema struct {
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(tool.Spec().Schema, &schema); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|([^(|]*)([^|]*)").FindStringSubmatch(string(page))
		if row == nil {
			t.Errorf("%s has no row", name)
			continue
		}
		for argument := range schema.Properties {
			place := row[2]
			if slices.Contains(schema.Required, argument) {
				place = row[1]
			}
			if !strings.Contains(place, "`"+argument+"`") {
				t.Errorf("the row of %s lacks %s, or has it in the wrong place", name, argument)
			}
		}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	all := append(Builtin(), NewTask(agents))
	for allowed, want := range map[string]string{
		"":                             "ls glob grep read write edit task_output kill_task task",
		"task,read,ls":                 "ls read task",
		"ls,ls":                        "ls",
		"ls,mcp__gone__x,mcp__gone__*": "ls",
		"ls,find_tools":                "ls",
	} {
		got, err := Select(all, slices.DeleteFunc(strings.Split(allowed, ","), func(s string) bool { return s == "" }))
		if err != nil || names(got) != want {
			t.Errorf("%q: %s, %v; want %s", allowed, names(got), err, want)
		}
	}
	if names(all) != "ls glob grep read write edit task_output kill_task task" {
		t.Errorf("Select changed what it was given: %s", names(all))
	}
	if _, err := Select(all, []string{"bash"}); err == nil || !strings.Contains(err.Error(), `no tool is named "bash"`) {
		t.Errorf("unknown tool: %v", err)
	}
	if _, err := Select(append(all, lsTool{}), nil); err == nil {
		t.Error("two tools with one name: no error")
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	if tool, ok := Lookup(Builtin(), "grep"); !ok || tool.Spec().Name != "grep" {
		t.Errorf("grep: %v, %t", tool, ok)
	}
	if tool, ok := Lookup(Builtin(), "task"); ok {
		t.Errorf("task: %v", tool)
	}
}

// What changes files is recorded first, and nothing else has to be.
func TestOnlyChangesLeaveEffects(t *testing.T) {
	t.Parallel()
	for _, tool := range append(Builtin(), NewTask(agents)) {
		if changes := GuardOf(tool).Access == policy.AccessEdit; changes != (tool.Effect() == EffectLasting) {
			t.Errorf("%s changes files: %t, and its effect is %d", tool.Spec().Name, changes, tool.Effect())
		}
	}
}
