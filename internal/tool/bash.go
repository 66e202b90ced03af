package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/sandbox"
)

//go:embed bash.md
var bashProse string

var bashSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "command": {"type": "string", "minLength": 1, "maxLength": 100000, "description": "The command line."},
    "description": {"type": "string", "maxLength": 200, "description": "What it does, in 3 to 7 words; people see it while it runs."},
    "timeout": {"type": "integer", "minimum": 1, "maximum": 86400000, "description": "How long it may take, in milliseconds. In the foreground at most 600000. Default: 120000; in the background 3600000."},
    "run_in_background": {"type": "boolean", "description": "Go on at once; the command becomes a task. Default: false."}
  },
  "required": ["command"],
  "additionalProperties": false
}`)

// BashTool is the name of the tool that [NewBash] returns.
const BashTool = policy.BashTool

// Bounds of a command.
const (
	maxCommand = 100_000 // characters of the command line

	foregroundTimeout    = 2 * time.Minute
	maxForegroundTimeout = 10 * time.Minute
	backgroundTimeout    = time.Hour
	maxBackgroundTimeout = 24 * time.Hour

	// progressInterval is the minimum interval between reports of a background command's output.
	progressInterval = time.Second
	// maxProgressBytes bounds such a report, which contains the end of the output.
	maxProgressBytes = 8 << 10
	// statusReserve is reserved in a result for the exit status.
	statusReserve = 500
)

// maxBackgroundCommands is how many background commands one worker runs at once.
const maxBackgroundCommands = 64

type bashTool struct {
	sandbox         *sandbox.Sandbox
	network         bool
	secrets         *redact.Redactor // nil: none are known
	backgroundSlots chan struct{}    // one element for each background command
}

// NewBash returns the tool that runs command lines. Secrets are removed from their output. network
// says whether they may use the network.
func NewBash(confined *sandbox.Sandbox, network bool, secrets *redact.Redactor) Tool {
	return bashTool{sandbox: confined, network: network, secrets: secrets, backgroundSlots: make(chan struct{}, maxBackgroundCommands)}
}

func (bashTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: BashTool, Description: bashProse, Schema: bashSchema}
}

// Effect: it is unknown what an interrupted command has done.
func (bashTool) Effect() Effect { return EffectLasting }

// Guard: the argument is the command line. A command may do anything.
func (bashTool) Guard() Guard {
	return Guard{Access: policy.AccessOther, Kind: policy.KindCommand, Arguments: fieldArgument("command", maxCommand)}
}

// Check: see [Checked].
func (t bashTool) Check(call Call) error {
	_, _, err := t.parse(call)
	return err
}

func (t bashTool) Call(ctx context.Context, call Call) Outcome {
	cmd, background, err := t.parse(call)
	if err != nil {
		return failed(err)
	}
	if background {
		if !cmd.acquireSlot() {
			return failed(fmt.Errorf("%d commands run in the background already: end one with kill_task, or wait", maxBackgroundCommands))
		}
		return cmd.spawn()
	}
	if err := cmd.start(); err != nil {
		return failed(err)
	}
	timeout := time.NewTimer(cmd.Timeout)
	defer timeout.Stop()
	for move := call.Background; ; move = nil {
		select {
		case <-cmd.ended:
		case <-timeout.C:
			cmd.kill(errTimeout)
		case <-ctx.Done():
			cmd.kill(ctx.Err())
		case <-move:
			if !cmd.acquireSlot() {
				continue
			}
			cmd.Timeout, cmd.ByUser = backgroundTimeout, true
			return cmd.spawn()
		}
		return cmd.result()
	}
}

// parse parses the input into a command that is not started yet.
func (t bashTool) parse(call Call) (_ *Command, background bool, _ error) {
	in := newInput(call.Input)
	cmd := &Command{
		Line: in.required("command", maxCommand), Description: in.optional("description", "", maxDescription),
		Timeout: in.duration("timeout"), sandbox: t.sandbox, network: t.network, secrets: t.secrets, workspace: call.Workspace, backgroundSlots: t.backgroundSlots,
	}
	background = in.flag("run_in_background", false)
	if background && call.NoBackground {
		background, cmd.Timeout = false, min(cmd.Timeout, maxForegroundTimeout)
	}
	most, otherwise := maxForegroundTimeout, foregroundTimeout
	if background {
		most, otherwise = maxBackgroundTimeout, backgroundTimeout
	}
	if cmd.Timeout > most {
		in.addProblem("timeout: at most %d milliseconds", most.Milliseconds())
	}
	if cmd.Timeout == 0 {
		cmd.Timeout = otherwise
	}
	if err := in.err(); err != nil {
		return nil, false, err
	}
	if call.Workspace == nil {
		return nil, false, errNoWorkspace
	}
	cmd.setOutputFile(call.Label)
	return cmd, background, nil
}
