package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/policy"
)

// Builtin gives the tools that are the same for every run. [NewTask] is made for
// the run that uses it.
func Builtin() []Tool {
	return []Tool{lsTool{}, globTool{}, grepTool{}, readTool{}, writeTool{}, editTool{}, taskOutputTool{}, killTaskTool{}}
}

// Names are those of all tools that a definition may name, beside those of MCP servers and
// of whoever builds a worker of his own.
func Names() []string {
	names := []string{TaskTool, SkillTool, DocsTool, BashTool, WebFetchTool, FindTool}
	for _, t := range Builtin() {
		names = append(names, t.Spec().Name)
	}
	slices.Sort(names)
	return names
}

// Unknown gives the entries (see [policy.Names]) that name none of these tools, nor any of MCP
// servers, of which nobody knows what there is.
func UnknownEntries(entries []string) []string {
	names := Names()
	return slices.DeleteFunc(slices.Clone(entries), func(entry string) bool {
		return strings.HasPrefix(entry, policy.MCPPrefix) || slices.Contains(names, entry)
	})
}

// Lookup finds the tool with a name.
func Lookup(tools []Tool, name string) (Tool, bool) {
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Spec().Name == name })
	if i < 0 {
		return nil, false
	}
	return tools[i], true
}

// Select gives the tools that the allowed entries (see [policy.Names]) name, in the
// order they have; all of them if allowed is empty. It is an error if there is no tool
// of an allowed name, unless it is one of an MCP server, which may come and go, or [FindTool];
// or if there are two tools with one name.
func Select(tools []Tool, allowed []string) ([]Tool, error) {
	var names []string
	for _, t := range tools {
		name := t.Spec().Name
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("select tools: two tools are named %q", name)
		}
		names = append(names, name)
	}
	for _, name := range allowed {
		if !slices.Contains(names, name) && !strings.HasPrefix(name, policy.MCPPrefix) && name != FindTool {
			return nil, fmt.Errorf("select tools: no tool is named %q: there are %s", name, orNone(names))
		}
	}
	if len(allowed) == 0 {
		return slices.Clone(tools), nil
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return !matchesAny(allowed, t.Spec().Name) }), nil
}

// named reports whether one of the entries names a tool.
func matchesAny(entries []string, tool string) bool {
	return slices.ContainsFunc(entries, func(entry string) bool { return policy.EntryMatches(entry, tool) })
}
