package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tree"
)

//go:embed task.md
var taskProse string

// taskSchema has a placeholder for the allowed values of subagent_type.
const taskSchema = `{
  "type": "object",
  "properties": {
    "description": {"type": "string", "minLength": 1, "maxLength": 200, "description": "What the task is about, in 3 to 7 words; people see it while the task runs."},
    "prompt": {"type": "string", "minLength": 1, "maxLength": 250000, "description": "The task itself, complete in itself: unless fork_context is set, the agent sees nothing of this conversation."},
    "subagent_type": {"type": "string"%s, "description": "The name of the agent to give the task to."},
    "model": {"type": "string", "maxLength": 200, "description": "The model to run the agent with. Default: the agent's own; leave it out unless you were told which one to use."},
    "resume": {"type": "string", "description": "The task_id of a task you started earlier: its agent goes on with this prompt and remembers what it did."},
    "fork_context": {"type": "boolean", "description": "Let the agent see this conversation so far, and continue from it. Default: false. For tasks that need most of what was said here; it costs as many tokens."},
    "run_in_background": {"type": "boolean", "description": "Go on at once and get the result later as a message. Default: false, unless the agent's description says otherwise."},
    "background": {"type": "boolean", "description": "The same as run_in_background."},
    "context": {"type": "string", "maxLength": 250000, "description": "What the agent should know beside the prompt."},
    "context_files": {"type": "array", "maxItems": 20, "items": {"type": "string", "minLength": 1, "maxLength": 4096}, "description": "Text files of the workspace whose content the agent gets with the prompt; at most 64 KiB of each and 256 KiB in all."},
    "max_iterations": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "How many model calls the agent may make. Default: what its definition says."},
    "timeout": {"type": "integer", "minimum": 1, "maximum": 604800000, "description": "How long the agent may work in all, in milliseconds; then it fails. Default: what its definition says."},
    "join": {"type": "string", "enum": ["all", "any"], "description": "any: of the calls of this message with any, the first agent that completes wins and the others are cancelled. Default: all."},
    "join_need": {"type": "integer", "minimum": 1, "maximum": 250, "description": "With join any: how many of these agents have to complete before the others are cancelled; give all of them the same number. Default: 1."},
    "join_timeout": {"type": "integer", "minimum": 1, "maximum": 604800000, "description": "How long to wait for the agent, in milliseconds; then it goes on in the background. Default: until it has ended."}
  },
  "required": ["description", "prompt", "subagent_type"],
  "additionalProperties": false
}`

const (
	maxDescription = 200
	maxPrompt      = 250_000
	maxModel       = 200
	maxIterations  = 10_000
	maxMillis      = 7 * 24 * 60 * 60 * 1000 // milliseconds
)

// Spawnable is an agent that a run may give tasks to. Its name consists of letters, digits, -, _
// and :.
type Spawnable struct {
	Name       string
	WhenToUse  string
	Background bool // it runs in the background unless the call says otherwise
}

type taskTool struct {
	spec       model.ToolSpec
	agents     []string
	background []string // agents that run in the background by default
}

// TaskTool is the name of the tool that [NewTask] returns.
const TaskTool = policy.TaskTool

// NewTask returns the tool that starts and resumes sub-agents, for a run that may use these
// agents. A run that may use none should not get the tool.
func NewTask(agents []Spawnable) Tool {
	t := taskTool{}
	prose := strings.Builder{}
	prose.WriteString(taskProse)
	for _, a := range agents {
		t.agents = append(t.agents, a.Name)
		byItself := ""
		if a.Background {
			t.background = append(t.background, a.Name)
			byItself = " (Runs in the background unless you say otherwise.)"
		}
		fmt.Fprintf(&prose, "- `%s`: %s%s\n", a.Name, strings.Join(strings.Fields(a.WhenToUse), " "), byItself)
	}
	if len(agents) == 0 {
		prose.WriteString("- none\n")
	}
	t.spec = model.ToolSpec{Name: TaskTool, Description: prose.String(), Schema: schemaFor(t.agents)}
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

// Effect: the orchestrator starts the child, and starts only one for each call.
func (t taskTool) Effect() Effect { return EffectDelegated }

// Check: see [Checked].
func (t taskTool) Check(call Call) error {
	_, err := t.parse(call.Input)
	return err
}

func (t taskTool) Call(ctx context.Context, call Call) Outcome {
	in, err := t.parse(call.Input)
	if err != nil {
		return failed(err)
	}
	in.Context = call.Workspace.contextParts(ctx, in.context, in.files)
	return in.Spawn
}

// taskInput is the parsed input. Its files are not read yet.
type taskInput struct {
	Spawn
	context string
	files   []string
}

func (t taskTool) parse(raw json.RawMessage) (taskInput, error) {
	in := newInput(raw)
	spawn := Spawn{
		Description: in.required("description", maxDescription),
		Prompt:      in.required("prompt", maxPrompt),
		Agent:       in.required("subagent_type", maxError),
		Model:       in.optional("model", "", maxModel),
		Resume:      in.taskID("resume", false),
		Fork:        in.flag("fork_context", false),

		MaxIterations: int(in.number("max_iterations", 0, 1, maxIterations)),
		Timeout:       in.duration("timeout"),
		JoinTimeout:   in.duration("join_timeout"),
	}
	if spawn.Fork && !spawn.Resume.IsZero() {
		in.addProblem("fork_context: a task that is resumed goes on with the context it has; leave one of the two out")
	}
	in.readJoin(&spawn)
	in.readBackground(&spawn, slices.Contains(t.background, spawn.Agent))
	if spawn.Agent != "" && !slices.Contains(t.agents, spawn.Agent) {
		in.addProblem("subagent_type: there is no agent %q to give tasks to; there are: %s", spawn.Agent, orNone(t.agents))
	}
	parsed := taskInput{
		Spawn: spawn, context: in.optional("context", "", maxContextText),
		files: in.stringList("context_files", maxContextFiles, maxPath),
	}
	return parsed, in.err()
}

// readJoin reads how the agent is joined with others.
func (in *input) readJoin(spawn *Spawn) {
	need := in.number("join_need", int64(tree.JoinAny), 1, int64(tree.JoinMax))
	policy := "all"
	if need > 1 {
		policy = "any" // join_need implies it
	}
	switch chosen := in.choice("join", policy, "all", "any"); {
	case chosen == "any":
		spawn.Join = tree.Join(need) //nolint:gosec // number has checked the bounds
	case need > 1:
		in.addProblem("join_need is for join any")
	}
}

// readBackground reads run_in_background under both of its names. byDefault is the default of the
// agent's definition; it does not apply to an agent that is joined.
func (in *input) readBackground(spawn *Spawn, byDefault bool) {
	_, first := in.fields["run_in_background"]
	_, second := in.fields["background"]
	joins := spawn.Join != tree.JoinAll || spawn.JoinTimeout > 0
	spawn.Background = in.flag("run_in_background", byDefault && !joins)
	also := in.flag("background", spawn.Background)
	if first && second && also != spawn.Background {
		in.addProblem("background: contradicts run_in_background; they are the same, give one")
	}
	if spawn.Background = also; also && joins {
		in.addProblem("join and join_timeout are for agents that you wait for, not for those in the background")
	}
}

// duration reads a time in milliseconds; 0 if absent.
func (in *input) duration(name string) time.Duration {
	return time.Duration(in.number(name, 0, 1, maxMillis)) * time.Millisecond
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
