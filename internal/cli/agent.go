package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// agentRow is a row in the description of an agent.
type agentRow struct{ name, value string }

// printDefinition prints all details of an agent.
func (a *app) printDefinition(resp *pb.GetAgentResponse) error {
	agent, l := resp.GetAgent(), a.theme()
	rows := append(agentRows(agent), definitionRows(agent.GetDefinition())...)
	rows = append(rows, agentRow{"source", agent.GetSource()}, agentRow{"version", agent.GetVersion()}, agentRow{"put", versionsText(resp.GetVersions())})
	rows = slices.DeleteFunc(rows, func(r agentRow) bool { return r.value == "" })
	wide := 0
	for _, r := range rows {
		wide = max(wide, len(safeLine(r.name)))
	}
	lines := []string{l.bold.Render(safeLine(agent.GetName())), safeLine(agent.GetDescription()), ""}
	for _, r := range rows {
		lines = append(lines, l.dim.Render(fmt.Sprintf("%-*s ", wide, safeLine(r.name)))+safeLine(r.value))
	}
	return a.print(append(lines, "", strings.TrimSpace(safeText(agent.GetPrompt())))...)
}

// agentRows returns the rows for the fields of an agent.
func agentRows(agent *pb.Agent) []agentRow {
	list := func(names []string) string { return strings.Join(names, ", ") }
	return []agentRow{
		{"mode", modeText(agent.GetMode())},
		{"tools", orDefault(list(agent.GetTools()), "all")},
		{"not", list(agent.GetDisallowedTools())},
		{"deferred", list(agent.GetDeferredTools())},
		{"skills", orDefault(list(agent.GetSkills()), "all")},
		{"spawns", orDefault(list(agent.GetSpawns()), "all that may be")},
		{"model", orDefault(agent.GetModel(), "that of the parent")},
		{"iterations", iterationsText(agent)},
		{"timeout", timeoutText(agent)},
		{"runs", backgroundText(agent)},
		{"on_interrupt", interruptText(agent)},
		{"reminder", agent.GetReminder()},
	}
}

// isField reports whether a key of a definition is shown as a field of the agent. All other keys
// are shown as they are, including keys that this program does not know.
func isField(key string) bool {
	switch key {
	case "name", "description", "mode", "tools", "disallowed_tools", "deferred_tools", "skills", "spawns", "model",
		"max_iterations", "timeout", "background", "on_interrupt", "reminder":
		return true
	}
	return false
}

// definitionRows returns the rows for keys of the definition that are not fields.
func definitionRows(definition string) []agentRow {
	const fence = "---\n"
	front, _, fenced := strings.Cut(strings.TrimPrefix(definition, fence), "\n"+fence)
	if definition == "" { // an older orchestrator
		return nil
	}
	var said yaml.MapSlice
	if err := yaml.UnmarshalWithOptions([]byte(front), &said, yaml.UseOrderedMap()); err != nil || !fenced {
		return []agentRow{{"definition", "can't be read here; --definition shows it"}}
	}
	var rows []agentRow
	for _, item := range said {
		key := fmt.Sprint(item.Key)
		if isField(key) {
			continue
		}
		values := []any{item.Value}
		if all, is := item.Value.([]any); is && len(all) > 0 {
			if _, are := all[0].(yaml.MapSlice); are { // hooks: one row each
				values = all
			}
		}
		for _, value := range values {
			rows = append(rows, agentRow{key, valueText(value)})
		}
	}
	return rows
}

// valueText formats a value of a definition on one line.
func valueText(value any) string {
	var parts []string
	switch v := value.(type) {
	case yaml.MapSlice:
		for _, item := range v {
			parts = append(parts, fmt.Sprint(item.Key)+" "+valueText(item.Value))
		}
		return strings.Join(parts, "; ")
	case []any:
		for _, item := range v {
			parts = append(parts, valueText(item))
		}
		return strings.Join(parts, ", ")
	}
	text := fmt.Sprint(value)
	if strings.ContainsAny(text, ",;\"") || !isPlain(text) {
		return quoted(text)
	}
	return text
}

func iterationsText(agent *pb.Agent) string {
	if agent.GetMaxIterations() == 0 {
		return "the default"
	}
	return fmt.Sprint(agent.GetMaxIterations())
}

func timeoutText(agent *pb.Agent) string {
	if agent.GetTimeout() == nil {
		return ""
	}
	return agent.GetTimeout().AsDuration().String()
}

func backgroundText(agent *pb.Agent) string {
	if agent.GetBackground() {
		return "in the background"
	}
	return ""
}

func interruptText(agent *pb.Agent) string {
	if agent.GetFailOnInterrupt() {
		return "fail"
	}
	return ""
}

// versionsText lists versions and when they were put.
func versionsText(versions []*pb.AgentVersion) string {
	var all []string
	for _, v := range versions {
		all = append(all, fmt.Sprintf("%s (%s)", v.GetVersion(), v.GetPutTime().AsTime().Local().Format(time.DateTime)))
	}
	return strings.Join(all, ", ")
}
