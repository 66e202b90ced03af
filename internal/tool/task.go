package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
)

//go:embed task.md
var taskProse string

// taskSchema has a hole for what subagent_type may be.
const taskSchema = `{
  "type": "object",
  "properties": {
    "description": {"type": "string", "minLength": 1, "maxLength": 200, "description": "What the task is about, in 3 to 7 words; people see it while the task runs."},
    "prompt": {"type": "string", "minLength": 1, "maxLength": 250000, "description": "The task itself, complete in itself: the agent sees nothing of this conversation."},
    "subagent_type": {"type": "string"%s, "description": "The name of the agent to give the task to."},
    "model": {"type": "string", "maxLength": 200, "description": "The model to run the agent with. Default: the agent's own; leave it out unless you were told which one to use."},
    "resume": {"type": "string", "description": "The task_id of a task you started earlier: its agent goes on with this prompt and remembers what it did."},
    "run_in_background": {"type": "boolean", "description": "Go on at once and get the result later as a message. Default: false."}
  },
  "required": ["description", "prompt", "subagent_type"],
  "additionalProperties": false
}`

const (
	maxDescription = 200
	maxPrompt      = 250_000
	maxModel       = 200
)

// Spawnable is an agent that a run may give tasks to. Its name is made of
// letters, digits, - and _.
type Spawnable struct {
	Name      string
	WhenToUse string
}

type taskTool struct {
	spec   model.ToolSpec
	agents []string
}

// NewTask gives the tool that starts and resumes sub-agents, for a run that may
// use these agents. A run that may use none should not be given the tool.
func NewTask(agents []Spawnable) Tool {
	t := taskTool{}
	prose := strings.Builder{}
	prose.WriteString(taskProse)
	for _, a := range agents {
		t.agents = append(t.agents, a.Name)
		fmt.Fprintf(&prose, "- `%s`: %s\n", a.Name, strings.Join(strings.Fields(a.WhenToUse), " "))
	}
	if len(agents) == 0 {
		prose.WriteString("- none\n")
	}
	t.spec = model.ToolSpec{Name: "task", Description: prose.String(), Schema: schemaFor(t.agents)}
	return t
}

func schemaFor(agents []string) json.RawMessage {
	var enum strings.Builder
	for _, name := range agents {
		before := ", "
		if enum.Len() == 0 {
			before = `, "enum": [`
		}
		fmt.Fprintf(&enum, "%s%q", before, name)
	}
	if enum.Len() > 0 {
		enum.WriteString("]")
	}
	return json.RawMessage(fmt.Sprintf(taskSchema, enum.String()))
}

func (t taskTool) Spec() model.ToolSpec { return t.spec }

// Effect: the orchestrator starts the child, and knows a call that has one.
func (t taskTool) Effect() Effect { return EffectDelegated }

func (t taskTool) Call(_ context.Context, call Call) Outcome {
	spawn, err := t.parse(call.Input)
	if err != nil {
		return failed(err)
	}
	return spawn
}

func (t taskTool) parse(raw json.RawMessage) (Spawn, error) {
	in := newInput(raw)
	spawn := Spawn{
		Description: in.required("description", maxDescription),
		Prompt:      in.required("prompt", maxPrompt),
		Agent:       in.required("subagent_type", maxError),
		Model:       in.optional("model", "", maxModel),
		Resume:      in.task("resume", false),
		Background:  in.flag("run_in_background", false),
	}
	if spawn.Agent != "" && !slices.Contains(t.agents, spawn.Agent) {
		in.problem("subagent_type: there is no agent %q to give tasks to; there are: %s", spawn.Agent, orNone(t.agents))
	}
	if err := in.end(); err != nil {
		return Spawn{}, err
	}
	return spawn, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
