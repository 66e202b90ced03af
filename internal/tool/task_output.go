package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"time"

	"github.com/coppice-run/coppice/internal/model"
)

//go:embed task_output.md
var taskOutputProse string

var taskOutputSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "task_id": {"type": "string", "minLength": 1, "description": "The id of the task, as the task tool gave it."},
    "block": {"type": "boolean", "description": "Wait for the task to end. false: only look. Default: true."},
    "timeout": {"type": "integer", "minimum": 0, "maximum": 600000, "description": "How long to wait at most, in milliseconds. Default: 30000."}
  },
  "required": ["task_id"],
  "additionalProperties": false
}`)

// Wait times of task_output in milliseconds.
const (
	defaultWait = 30_000
	maxWait     = 600_000
)

type taskOutputTool struct{}

func (taskOutputTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "task_output", Description: taskOutputProse, Schema: taskOutputSchema}
}

func (taskOutputTool) Effect() Effect { return EffectDelegated }

// Check: see [Checked].
func (taskOutputTool) Check(call Call) error {
	_, err := parseTaskOutput(call.Input)
	return err
}

func (taskOutputTool) Call(_ context.Context, call Call) Outcome {
	wait, err := parseTaskOutput(call.Input)
	if err != nil {
		return failed(err)
	}
	return wait
}

func parseTaskOutput(raw json.RawMessage) (Wait, error) {
	in := newInput(raw)
	wait := Wait{Task: in.taskID("task_id", true)}
	block := in.flag("block", true)
	timeout := in.number("timeout", defaultWait, 0, maxWait)
	if block {
		wait.Timeout = time.Duration(timeout) * time.Millisecond
	}
	if err := in.err(); err != nil {
		return Wait{}, err
	}
	return wait, nil
}
