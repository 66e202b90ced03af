package loop

import (
	"slices"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// handOver lets the model call a tool from now on: it is told of those that the run
// may use, and of none that are kept from runs on behalf of somebody outside.
func (r *runner) enableTool(t tool.Tool) {
	spec, guard := t.Spec(), tool.GuardOf(t)
	switch {
	case r.tools[spec.Name] != nil:
		return
	case guard.Internal && r.Source != "":
		r.internalTools[spec.Name] = true
		return
	case !r.layers.Hides(spec.Name, guard.Access):
		r.specs = append(r.specs, spec)
	}
	r.tools[spec.Name] = t // a call of one that is hidden is refused with the reason
}

// handOverTools hands over the tools that the model has from the start, and then the
// deferred ones that it has found. Which these are follows from the transcript as the
// model sees it, so a run that goes on elsewhere has the same, in the same order.
func (r *runner) enableTools() {
	if r.specs != nil && len(r.DeferredTools) == 0 {
		return
	}
	r.tools, r.specs, r.internalTools = make(map[string]tool.Tool, len(r.Tools)), make([]model.ToolSpec, 0, len(r.Tools)), map[string]bool{}
	for _, t := range r.Tools {
		r.enableTool(t)
	}
	if len(r.DeferredTools) == 0 {
		return // there was nothing to find
	}
	found := r.foundTools()
	last := newestNames(found, maxTools-len(r.specs))
	for _, t := range found {
		if last[t.Spec().Name] {
			r.enableTool(t)
		}
	}
}

// mostTools is how many tools a run has at most: OpenAI refuses requests with more.
const maxTools = 128

// found gives the tools that the model has found, oldest first, each as often as it was found.
func (r *runner) foundTools() (found []tool.Tool) {
	for p := range r.pastCalls {
		finder, ok := r.tools[p.Tool].(tool.Finder)
		if !ok || p.IsError {
			continue
		}
		for _, name := range finder.Found(p.Text) {
			if t, ok := tool.Lookup(r.DeferredTools, name); ok {
				found = append(found, t)
			}
		}
	}
	return found
}

// newest gives the names of those that come last, at most so many.
func newestNames(found []tool.Tool, most int) map[string]bool {
	last := map[string]bool{}
	for _, t := range slices.Backward(found) {
		if len(last) >= most {
			break
		}
		last[t.Spec().Name] = true
	}
	return last
}

// past gives the calls of earlier messages with their results, as the model sees
// them, oldest first. Tools may go through it at the same time: the transcript does
// not change while one runs.
func (r *runner) pastCalls(yield func(tool.Past) bool) {
	for i := 1; i < len(r.Transcript); i++ {
		if r.Transcript[i].Role != tree.RoleTool {
			continue
		}
		asked := r.Transcript[i-1].Blocks
		for _, b := range r.Transcript[i].Blocks {
			result, ok := b.(tree.ToolResult)
			if !ok || result.Block < 0 || result.Block >= len(asked) {
				continue
			}
			use, ok := asked[result.Block].(tree.ToolUse)
			if ok && !yield(tool.Past{Tool: use.Name, Input: use.Input, Text: result.Text, IsError: result.IsError}) {
				return
			}
		}
	}
}

// isDeferred reports whether there is a tool that has not been handed over.
func (r *runner) isDeferred(name string) bool {
	return slices.ContainsFunc(r.DeferredTools, func(t tool.Tool) bool { return t.Spec().Name == name })
}
