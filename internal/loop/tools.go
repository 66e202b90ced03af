package loop

import (
	"slices"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// enableTool makes a tool available. The model is told of the tools that the run may use, except
// those that are withheld from runs for outside parties.
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
	r.tools[spec.Name] = t // also if it is hidden, so that a call is refused with the reason
}

// enableTools enables the initial tools, and then the deferred ones that the model has found.
// Which these are follows from the transcript as the model sees it. So a run that continues
// elsewhere has the same tools in the same order.
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

// maxTools is the maximum number of tools of a run: OpenAI refuses requests with more.
const maxTools = 128

// foundTools returns the tools that the model has found, oldest first, each as often as it was
// found.
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

// newestNames returns the names of the last found tools, at most most of them.
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

// pastCalls yields the calls of earlier messages with their results, as the model sees them,
// oldest first. Tools may iterate concurrently: the transcript does not change while a tool runs.
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

// isDeferred reports whether a deferred tool has the name.
func (r *runner) isDeferred(name string) bool {
	return slices.ContainsFunc(r.DeferredTools, func(t tool.Tool) bool { return t.Spec().Name == name })
}
