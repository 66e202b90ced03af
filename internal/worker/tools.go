package worker

import (
	"context"
	"slices"

	"github.com/coppice-run/coppice"
	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/skill"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/workspace"
)

// tools gives the tools of a run: those that its definition allows, without those
// that would have nothing to do. The deferred ones it is handed when it has found
// them.
func (w *Worker) tools(ctx context.Context, place *workspace.Place, def *agentdef.Definition, agents []tool.Spawnable) (first, deferred []tool.Tool, err error) {
	skills, some := w.skills(ctx, place, def)
	all := append([]tool.Tool{tool.NewTask(agents), skills}, w.Tools...)
	if slices.Contains(def.Tools, tool.DocsTool) {
		all = append(all, tool.NewDocs(coppice.Documents))
	}
	tools, err := tool.Select(all, def.Tools)
	if err != nil {
		return nil, nil, err
	}
	tools = slices.DeleteFunc(tools, func(t tool.Tool) bool {
		switch name := t.Spec().Name; {
		case !def.Allows(name):
			return true
		case name == tool.SkillTool:
			return !some
		}
		return t.Effect() == tool.EffectDelegated && len(agents) == 0
	})
	first, deferred = tool.Defer(tools, def.DeferredTools)
	return first, deferred, nil
}

// skills gives the tool that loads skills, and whether there are any.
func (w *Worker) skills(ctx context.Context, place *workspace.Place, def *agentdef.Definition) (_ tool.Tool, some bool) {
	var places []skill.Place
	if def.Allows(tool.SkillTool) {
		places = place.SkillPlaces()
		for _, dir := range w.SkillsDirs {
			places = append(places, skill.In(dir, ""))
		}
		plugins, err := skill.Plugins(w.PluginsDir)
		if err != nil {
			w.Logger.WarnContext(ctx, "the skills of plugins can't be used", "error", err)
		}
		places = append(places, plugins...)
	}
	return tool.NewSkill(places, def.Skills)
}
