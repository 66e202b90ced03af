package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice"
	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/skill"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/workspace"
)

// toolset is the tools of a run.
type toolset struct {
	initial  []tool.Tool
	deferred []tool.Tool // handed to the model once it has found them
	note     string      // tells the model which tools are missing
}

// tools returns the tools of a run: those that its definition allows, except those that would have
// nothing to do. Most runs use neither skills nor a ToolSource. Their toolset depends on the
// definition and the agents alone, and is cached.
func (w *Worker) tools(ctx context.Context, place *workspace.Place, def *definition, agents []tool.Spawnable) (toolset, error) {
	skills, some := w.skillTool(ctx, place, def.Definition)
	if err := ctx.Err(); err != nil {
		return toolset{}, err
	}
	var more []tool.Tool
	var missing []tool.Missing
	if w.ToolSource != nil {
		more, missing = w.ToolSource.Tools(ctx, def.MayUse)
	}
	lasting := !some && len(more)+len(missing) == 0
	if lasting {
		if h, known := def.cachedToolset(agents); known {
			return h, nil
		}
	}
	all := append([]tool.Tool{tool.NewTask(agents), skills}, w.Tools...)
	if slices.Contains(def.Tools, tool.DocsTool) {
		all = append(all, tool.NewDocs(coppice.Documents))
	}
	h, err := selectTools(def.Definition, append(all, more...), missing, agents, some)
	if lasting && err == nil {
		def.cacheToolset(agents, h)
	}
	return h, err
}

// selectTools selects the tools that a definition allows and that have something to do.
func selectTools(def *agentdef.Definition, all []tool.Tool, missing []tool.Missing, agents []tool.Spawnable, skills bool) (toolset, error) {
	tools, err := tool.Select(all, def.Tools)
	if err != nil {
		return toolset{}, err
	}
	_, shell := tool.Lookup(tools, tool.BashTool)
	shell = shell && def.Allows(tool.BashTool)
	tools = slices.DeleteFunc(tools, func(t tool.Tool) bool {
		switch name := t.Spec().Name; {
		case !def.Allows(name):
			return true
		case name == tool.SkillTool:
			return !skills
		}
		// Without agents the only tasks are background commands.
		return t.Effect() == tool.EffectDelegated && len(agents) == 0 && (!shell || t.Spec().Name == tool.TaskTool)
	})
	h := toolset{note: missingNote(append(missing, unmatchedEntries(def.Tools, tools, missing)...))}
	finds := !slices.ContainsFunc(def.DisallowedTools, func(entry string) bool { return policy.EntryMatches(entry, tool.FindTool) })
	h.initial, h.deferred = tool.Defer(tools, def.DeferredTools, finds)
	return h, nil
}

// unmatchedEntries returns the MCP entries of a definition that match neither a tool nor a tool
// that is known to be missing.
func unmatchedEntries(entries []string, tools []tool.Tool, missing []tool.Missing) []tool.Missing {
	var out []tool.Missing
	for _, entry := range entries {
		there := slices.ContainsFunc(tools, func(t tool.Tool) bool { return policy.EntryMatches(entry, t.Spec().Name) })
		known := slices.ContainsFunc(missing, func(m tool.Missing) bool { return policy.EntriesOverlap(m.Entry, entry) })
		if !there && !known && strings.HasPrefix(entry, policy.MCPPrefix) {
			out = append(out, tool.Missing{Entry: entry, Why: "no MCP server has it"})
		}
	}
	return out
}

// missingNote tells a model which tools are missing; empty if none are.
func missingNote(missing []tool.Missing) string {
	if len(missing) == 0 {
		return ""
	}
	note := "Tools that you would have are missing at present:\n"
	for _, m := range missing {
		note += fmt.Sprintf("- %s: %s\n", m.Entry, m.Why)
	}
	return note + "Do what can be done without them, and say so in your answer if that matters."
}

// skillTool returns the tool that loads skills, and whether there are any skills.
func (w *Worker) skillTool(ctx context.Context, place *workspace.Place, def *agentdef.Definition) (_ tool.Tool, some bool) {
	var places []skill.Place
	if def.Allows(tool.SkillTool) {
		places = place.SkillPlaces()
		for _, dir := range w.SkillsDirs {
			places = append(places, skill.In(dir, ""))
		}
		plugins, err := skill.Plugins(w.PluginsDir)
		if err != nil {
			w.Logger.WarnContext(ctx, "reading the skills of plugins failed", "error", err)
		}
		places = append(places, plugins...)
	}
	return tool.NewSkill(ctx, places, def.Skills)
}
