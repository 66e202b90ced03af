package tool

import (
	"encoding/json"
	"path"
	"path/filepath"
	"slices"

	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/policy"
)

// Guarded is a tool that says what permissions have to know of it. Any other tool
// is taken for one that may do anything, and whose calls are all alike.
type Guarded interface {
	Tool
	Guard() Guard
}

// Guard is what permissions have to know of a tool.
type Guard struct {
	// Access is what a call does to the world.
	Access policy.Access
	// Internal tools are kept from runs that are on behalf of somebody outside.
	Internal bool
	// Kind says how arguments are read.
	Kind policy.Kind
	// Arguments gives what rules for the tool match a call by: a path, a command, the
	// name of an agent. If there are several names for one thing all are given, and the
	// strictest decision counts. nil: calls are all alike. It may look at the
	// workspace, and gets input that nobody has checked.
	Arguments func(call Call) []string
	// Reads gives files of the workspace that a call reads beside; each is decided on
	// as a call of the tool read. nil: none.
	Reads func(call Call) []string
}

// GuardOf gives the guard of a tool.
func GuardOf(t Tool) Guard {
	if g, ok := t.(Guarded); ok {
		return g.Guard()
	}
	return Guard{Internal: t.Effect() == EffectDelegated}
}

// calls gives what a call of a tool does, as rules see it: first what it is about.
func (g Guard) policyCalls(name string, call Call) []policy.Call {
	arguments := []string{""}
	if g.Arguments != nil || g.Reads != nil {
		call.parsed = newInput(call.Input)
	}
	if g.Arguments != nil {
		arguments = g.Arguments(call)
	}
	var all []policy.Call
	for _, arg := range arguments {
		all = append(all, policy.Call{Tool: name, Access: g.Access, Kind: g.Kind, Argument: arg})
	}
	if g.Reads == nil {
		return all
	}
	for _, file := range g.Reads(call) {
		for _, arg := range call.Workspace.ruleNames(file) {
			all = append(all, policy.Call{Tool: readName, Access: policy.AccessRead, Kind: policy.KindPath, Argument: arg})
		}
	}
	return all
}

// Judge decides on a call of a tool: the strictest decision on all that it does counts.
func Judge(layers policy.Layers, t Tool, call Call) (_ policy.Verdict, argument string) {
	calls := GuardOf(t).policyCalls(t.Spec().Name, call)
	worst := policy.Verdict{}
	for _, c := range calls {
		v := layers.Judge(c)
		if v.Decision > worst.Decision {
			worst = v
			continue
		}
		for _, r := range v.Rules {
			if v.Decision == worst.Decision && !slices.Contains(worst.Rules, r) {
				worst.Rules = append(worst.Rules, r)
			}
		}
	}
	return worst, calls[0].Argument
}

// lookGuard is that of tools that only look at a path; the fallback is the path of
// a call that names none.
func readGuard(fallback string) Guard {
	return Guard{Access: policy.AccessRead, Kind: policy.KindPath, Arguments: func(call Call) []string {
		return call.Workspace.ruleNames(call.parsed.optional("path", fallback, maxPath))
	}}
}

// changeGuard is that of tools that change a file.
func editGuard() Guard {
	g := readGuard("")
	g.Access = policy.AccessEdit
	return g
}

// names gives a path as rules see it, and where it leads if symbolic links are in
// it. One that leads out of the workspace is given clean, as it was written.
func (w *Workspace) ruleNames(name string) []string {
	below, err := w.rel(name)
	if err != nil {
		return []string{path.Clean(filepath.ToSlash(name))}
	}
	names := []string{below}
	// What is not there yet is where its directory leads.
	for dir, rest := below, ""; ; dir, rest = path.Dir(dir), path.Join(path.Base(dir), rest) {
		real, err := filepath.EvalSymlinks(filepath.Join(w.resolved, filepath.FromSlash(dir)))
		if err == nil {
			if leads, err := filepath.Rel(w.resolved, real); err == nil {
				if leads = path.Join(filepath.ToSlash(leads), rest); leads != below {
					names = append(names, leads)
				}
			}
			return names
		}
		if dir == "." {
			return names
		}
	}
}

// Guard: the argument is the directory.
func (lsTool) Guard() Guard { return readGuard(".") }

// Guard: the argument is the directory that the search starts in, to which the pattern may
// lead.
func (globTool) Guard() Guard {
	g := readGuard(".")
	g.Arguments = func(call Call) []string {
		start, _ := splitGlob(call.parsed.optional("path", ".", maxPath), call.parsed.optional("pattern", "", maxPattern))
		return call.Workspace.ruleNames(start)
	}
	return g
}

// Guard: the argument is the file or directory that is searched.
func (grepTool) Guard() Guard { return readGuard(".") }

// Guard: the argument is the file.
func (readTool) Guard() Guard { return readGuard("") }

// Guard: the argument is the file.
func (writeTool) Guard() Guard { return editGuard() }

// Guard: the argument is the file.
func (editTool) Guard() Guard { return editGuard() }

// Guard: the argument is the name of the agent. Giving a task to an agent does
// nothing by itself; what the agent may do is decided when it does it.
func (t taskTool) Guard() Guard {
	return Guard{
		Access: policy.AccessRead, Internal: true,
		Arguments: fieldArgument("subagent_type", maxError),
		Reads:     func(call Call) []string { return call.parsed.stringList("context_files", maxContextFiles, maxPath) },
	}
}

// Guard: the argument is the id of the task.
func (taskOutputTool) Guard() Guard {
	return Guard{Access: policy.AccessRead, Internal: true, Arguments: fieldArgument("task_id", maxError)}
}

// argument has rules match a call by a field of its input.
func fieldArgument(name string, limit int) func(Call) []string {
	return func(call Call) []string { return []string{call.parsed.optional(name, "", limit)} }
}

// textOf gives a field of an input; empty if there is no such text.
func textField(raw json.RawMessage, name string) string {
	return newInput(raw).optional(name, "", maxError)
}

// Guard: the argument is the name of the skill.
func (skillTool) Guard() Guard {
	return Guard{Access: policy.AccessRead, Arguments: fieldArgument("name", maxError)}
}

// Guard: the argument is the URL in its plain form, as it is fetched. What is no URL
// is given as it was written; it is fetched from nowhere.
func (webFetchTool) Guard() Guard {
	return Guard{Access: policy.AccessNetwork, Kind: policy.KindURL, Arguments: func(call Call) []string {
		text := call.parsed.optional("url", "", maxURL)
		if u, err := outbound.ParseURL(text); err == nil {
			text = u.String()
		}
		return []string{text}
	}}
}

// Guard: the argument is the name of the page.
func (docsTool) Guard() Guard {
	return Guard{Access: policy.AccessRead, Arguments: fieldArgument("page", maxError)}
}

// Guard: which tools there are is no secret; calls of what is found are decided on.
func (findTool) Guard() Guard { return Guard{Access: policy.AccessRead} }
