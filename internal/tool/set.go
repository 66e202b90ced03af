package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/policy"
)

// Builtin returns the tools that are the same for every run. [NewTask] makes a tool for one run.
func Builtin() []Tool {
	return []Tool{lsTool{}, globTool{}, grepTool{}, readTool{}, writeTool{}, editTool{}, taskOutputTool{}, killTaskTool{}}
}

// Names returns the names of all tools that a definition may name, except those of MCP servers and
// those that are added to a custom worker.
func Names() []string {
	names := []string{TaskTool, SkillTool, DocsTool, BashTool, WebFetchTool, FindTool}
	for _, t := range Builtin() {
		names = append(names, t.Spec().Name)
	}
	slices.Sort(names)
	return names
}

// UnknownEntries returns the entries (see [policy.EntryMatches]) that match none of these tools.
// Entries for MCP servers are not included, because their tools are unknown here.
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

// Select returns the tools that the allowed entries (see [policy.EntryMatches]) match, in the
// order of tools; all of them if allowed is empty. It fails if two tools have one name, or if an
// allowed name matches no tool. Names of MCP tools, which come and go, and [FindTool] may match
// none.
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

// matchesAny reports whether one of the entries matches a tool.
func matchesAny(entries []string, tool string) bool {
	return slices.ContainsFunc(entries, func(entry string) bool { return policy.EntryMatches(entry, tool) })
}
