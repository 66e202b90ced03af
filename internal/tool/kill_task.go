package tool

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/coppice-run/coppice/internal/model"
)

//go:embed kill_task.md
var killTaskProse string

var killTaskSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "task_id": {"type": "string", "minLength": 1, "description": "The id of the task, as you were given it."}
  },
  "required": ["task_id"],
  "additionalProperties": false
}`)

type killTaskTool struct{}

func (killTaskTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "kill_task", Description: killTaskProse, Schema: killTaskSchema}
}

// Effect: the orchestrator ends the task; ending it again changes nothing.
func (killTaskTool) Effect() Effect { return EffectDelegated }

// Guard: the argument is the id of the task. A task can only end tasks that it has started.
func (killTaskTool) Guard() Guard { return taskOutputTool{}.Guard() }

// Check: see [Checked].
func (killTaskTool) Check(call Call) error {
	_, err := parseKillTask(call.Input)
	return err
}

func (killTaskTool) Call(_ context.Context, call Call) Outcome {
	wait, err := parseKillTask(call.Input)
	if err != nil {
		return failed(err)
	}
	return wait
}

func parseKillTask(raw json.RawMessage) (Wait, error) {
	in := newInput(raw)
	wait := Wait{Task: in.taskID("task_id", true), Stop: true}
	return wait, in.err()
}
