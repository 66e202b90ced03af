package tool

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/tree"
)

var agents = []Spawnable{{Name: "explore", WhenToUse: "finds things"}, {Name: "plan", WhenToUse: "plans\n\tthings"}}

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
		} else if !reflect.DeepEqual(got, want) {
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
		`{"description":"d","prompt":"p","subagent_type":"plan","background":true,"max_iterations":3,"timeout":1500}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p", Background: true, MaxIterations: 3, Timeout: 1500 * time.Millisecond},
		`{"description":"d","prompt":"p","subagent_type":"plan","join":"any","join_timeout":2000,"context":"c","background":false}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p", Join: tree.JoinAny, JoinTimeout: 2 * time.Second,
			Context: []string{"Context that comes with the task:\nc"}},
		`{"description":"d","prompt":"p","subagent_type":"plan","context_files":["a.txt"]}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p", Context: []string{
				"Files that were meant to come with the task and could not be read:\n- " + errNoWorkspace.Error()}},
		`{"description":"d","prompt":"p","subagent_type":"plan","background":true,"run_in_background":false}`: Done{
			Text: "background: contradicts run_in_background"},
		`{"description":"d","prompt":"p","subagent_type":"plan","background":true,"join":"any"}`: Done{
			Text: "join and join_timeout are for agents that you wait for"},
		`{"description":"d","prompt":"p","subagent_type":"plan","context_files":["a",7," "]}`: Done{
			Text: "context_files: expected a string, got a number; context_files: expected a string that is not blank"},
		`{"description":"d","prompt":"p","subagent_type":"plan","join":"any","join_need":2}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p", Join: 2},
		`{"description":"d","prompt":"p","subagent_type":"plan","join":"any","join_need":251}`: Done{Text: "join_need: expected"},
		`{"description":"d","prompt":"p","subagent_type":"plan","join_need":3}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p", Join: 3},
		`{"description":"d","prompt":"p","subagent_type":"plan","join":"all","join_need":2}`: Done{Text: "join_need is for join any"},
		`{"description":"d","prompt":"p","subagent_type":"plan","join":"all","join_need":1}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p"},
		`{"description":"d","prompt":"p","subagent_type":"plan","join_need":1}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p"},
		`{"description":"d","prompt":"p","subagent_type":"plan","join":"some"}`: Done{Text: "join: expected one of all, any"},
		`{"description":"d","prompt":"p","subagent_type":"root"}`: Done{
			Text: `subagent_type: there is no agent "root" to give tasks to; there are: explore, plan`},
		`{"description":"d","prompt":"p","subagent_type":"plan","fork_context":true}`: Spawn{
			Agent: "plan", Description: "d", Prompt: "p", Fork: true,
		},
		`{"description":"d","prompt":"p","subagent_type":"plan","fork_context":true,"resume":"` + anID + `"}`: Done{
			Text: "fork_context: a task that is resumed goes on with the context it has; leave one of the two out"},
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

// An agent may run in the background by itself; the call has the last word.
func TestTaskInTheBackgroundByItself(t *testing.T) {
	t.Parallel()
	task := NewTask([]Spawnable{{Name: "watcher", WhenToUse: "watches", Background: true}, {Name: "plan", WhenToUse: "plans"}})
	spawn := Spawn{Agent: "watcher", Description: "d", Prompt: "p", Background: true}
	foreground, plan := spawn, spawn
	foreground.Background, plan.Background, plan.Agent = false, false, "plan"
	outcomes(t, task, map[string]Outcome{
		`{"description":"d","prompt":"p","subagent_type":"watcher"}`:                           spawn,
		`{"description":"d","prompt":"p","subagent_type":"watcher","run_in_background":true}`:  spawn,
		`{"description":"d","prompt":"p","subagent_type":"watcher","run_in_background":false}`: foreground,
		`{"description":"d","prompt":"p","subagent_type":"plan"}`:                              plan,
	})
	if want := "- `watcher`: watches (Runs in the background unless you say otherwise.)\n"; !strings.Contains(task.Spec().Description, want) {
		t.Errorf("got %q", task.Spec().Description)
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
