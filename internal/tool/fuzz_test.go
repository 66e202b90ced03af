package tool

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Whatever a model writes, each tool answers with a result that can be stored,
// or asks for something that makes sense.
func FuzzInput(f *testing.F) {
	w := setup(f, "a.go", "package a\n", "b/b.txt", "text\nlong "+strings.Repeat("x", 10_000), "bin", "\x00")
	tools := append(Builtin(), NewTask(agents))
	for _, seed := range []string{
		`{}`, ``, `null`, `{"path":"a.go","offset":1,"limit":1}`, `{"path":"../secret"}`, `{"pattern":"**/*.{go,txt}"}`,
		`{"pattern":"x+","output_mode":"content","case_insensitive":true,"head_limit":3,"glob":"*"}`,
		`{"description":"d","prompt":"p","subagent_type":"plan","model":"m","resume":"` + anID + `","run_in_background":true}`,
		`{"task_id":"` + anID + `","block":false,"timeout":10}`, `{"path":"\ud800"}`, `{"path":1e999}`,
		`{"path":"new/a.txt","content":"x\n"}`, `{"path":"a.go","old_string":"a","new_string":"b","replace_all":true}`,
		`{"pattern":"{a,b}{[^c]*,**}\\"}`, `{"pattern":"(?i)\\pL{5}(a|b)*$","path":"b"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, tool := range tools {
			name := tool.Spec().Name
			switch out := tool.Call(t.Context(), Call{Input: input, Workspace: w}).(type) {
			case Done:
				if out.Text == "" || len(out.Text) > maxOutput || !utf8.ValidString(out.Text) || strings.Contains(out.Text, "\x00") {
					t.Errorf("%s: result %q", name, out.Text)
				}
				if strings.Contains(out.Text, secret) {
					t.Errorf("%s got out: %q", name, out.Text)
				}
			case Spawn:
				known := slices.ContainsFunc(agents, func(a Spawnable) bool { return a.Name == out.Agent })
				if name != "task" || !known || out.Prompt == "" || out.Description == "" {
					t.Errorf("%s: %+v", name, out)
				}
			case Wait:
				if name != "task_output" && name != "kill_task" || out.Stop != (name == "kill_task") || out.Task.IsZero() || out.Timeout < 0 || out.Timeout > 10*time.Minute {
					t.Errorf("%s: %+v", name, out)
				}
			default:
				t.Errorf("%s: %T", name, out)
			}
		}
	})
}
