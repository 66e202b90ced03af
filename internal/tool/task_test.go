package tool

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/tree"
)

var agents = []Spawnable{{"explore", "finds things"}, {"plan", "plans\n\tthings"}}

const anID = "01980000-0000-7000-8000-000000000001"

// outcomes checks the calls of a tool that asks for something to happen elsewhere.
func outcomes(t *testing.T, tool Tool, cases map[string]Outcome) {
	t.Helper()
	for input, want := range cases {
		got := tool.Call(t.Context(), Call{Input: []byte(input)})
		if failure, ok := want.(Done); ok {
			done, _ := got.(Done)
			if !done.IsError || !strings.Contains(done.Text, failure.Text) {
				t.Errorf("%s:\n got %+v\nwant an error with %q", input, got, failure.Text)
			}
		} else if got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", input, got, want)
		}
	}
}

func TestTask(t *testing.T) {
	t.Parallel()
	id := tree.TaskID(uuid.MustParse(anID))
	outcomes(t, NewTask(agents), map[string]Outcome{
		`{"description":"look","prompt":"look at it","subagent_type":"explore"}`: Spawn{
			Agent: "explore", Description: "look", Prompt: "look at it"},
		`{"description":"d","prompt":"p","subagent_type":"plan","model":"m","run_in_background":true,"resume":"` + anID + `"}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p", Model: "m", Background: true, Resume: id},
		`{"description":"d","prompt":"p","subagent_type":"root"}`: Done{
			Text: `subagent_type: there is no agent "root" to give tasks to; there are: explore, plan`},
		`{"description":"d","prompt":"p","subagent_type":"plan","resume":"last"}`: Done{
			Text: `resume: expected the id of a task as you were given it, got "last"`},
		`{"description":"d","prompt":"p","subagent_type":"plan","resume":""}`: Done{Text: "resume: expected"},
		`{"description":"d","prompt":"p"}`:                                    Done{Text: "subagent_type: missing"},
		`{"description":" ","prompt":"p","subagent_type":"plan"}`:             Done{Text: "description: expected a string that is not blank"},
		`{"prompt":"p","subagent_type":"plan"}`:                               Done{Text: "description: missing"},
	})
	outcomes(t, NewTask(nil), map[string]Outcome{
		`{"description":"d","prompt":"p","subagent_type":"explore"}`: Done{Text: "there are: none"},
	})
}

func TestTaskProse(t *testing.T) {
	t.Parallel()
	spec := NewTask(agents).Spec()
	if want := "- `explore`: finds things\n- `plan`: plans things\n"; !strings.HasSuffix(spec.Description, want) {
		t.Errorf("got %q", spec.Description)
	}
	if want := `"enum": ["explore", "plan"]`; !strings.Contains(string(spec.Schema), want) {
		t.Errorf("got %s", spec.Schema)
	}
}

func TestTaskOutput(t *testing.T) {
	t.Parallel()
	id := tree.TaskID(uuid.MustParse(anID))
	outcomes(t, taskOutputTool{}, map[string]Outcome{
		`{"task_id":"` + anID + `"}`:                               Wait{Task: id, Timeout: 30 * time.Second},
		`{"task_id":"` + anID + `","timeout":600000}`:              Wait{Task: id, Timeout: 10 * time.Minute},
		`{"task_id":"` + anID + `","timeout":0}`:                   Wait{Task: id},
		`{"task_id":"` + anID + `","block":false,"timeout":5}`:     Wait{Task: id},
		`{"task_id":"` + anID + `","timeout":600001}`:              Done{Text: "timeout: expected a whole number from 0 to 600000, got 600001"},
		`{"task_id":"` + anID + `","timeout":-1}`:                  Done{Text: "timeout: expected"},
		`{"task_id":"00000000-0000-0000-0000-000000000000"}`:       Done{Text: "task_id: expected the id"},
		`{"task_id":"urn:uuid:` + anID + `"}`:                      Done{Text: "task_id: expected the id"},
		`{}`:                                                       Done{Text: "task_id: missing"},
		`{"task_id":"` + anID + `","task_id":"` + anID + `"}`:      Done{Text: `field "task_id" is given twice`},
		`{"task_id":7,"block":1,"timeout":true,"x":null,"y":null}`: Done{Text: `block: expected true or false, got a number; timeout: expected a whole number, got a boolean; unknown field "x"`},
	})
}
