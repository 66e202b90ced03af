package tool

import (
	"encoding/json"
	"path"
	"path/filepath"
	"slices"

	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/policy"
)

// Guarded is a tool that describes itself to the permissions. Any other tool is assumed to be able
// to do anything, and all its calls are equal.
type Guarded interface {
	Tool
	Guard() Guard
}

// Guard describes a tool to the permissions.
type Guard struct {
	// Access is what a call does to the world.
	Access policy.Access
	// Internal tools are withheld from runs that act for an outside party.
	Internal bool
	// Kind is how arguments are matched.
	Kind policy.Kind
	// Arguments returns what rules for the tool match a call by: a path, a command, the name of an
	// agent. If one thing has several names, it returns all of them, and the strictest decision
	// counts. nil: all calls are equal. It may read the workspace, and its input is not checked.
	Arguments func(call Call) []string
	// Reads returns files of the workspace that a call reads in addition. Each is decided on as a
	// call of the read tool. nil: none.
	Reads func(call Call) []string
}

// GuardOf returns the guard of a tool.
func GuardOf(t Tool) Guard {
	if g, ok := t.(Guarded); ok {
		return g.Guard()
	}
	return Guard{Internal: t.Effect() == EffectDelegated}
}

// policyCalls returns everything that a call does, as calls for the policy. The first one has the
// argument to show.
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

// Judge decides on a call of a tool: the strictest decision on everything that it does counts.
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

// Checked is a tool that can tell before a call whether its input fits.
type Checked interface {
	Tool
	// Check returns the error that Call would answer an input with that does not fit.
	Check(call Call) error
}

// Check returns the result of a call whose input does not fit its tool; refused is false if it fits,
// or if only the call can tell.
func Check(t Tool, call Call) (_ Done, refused bool) {
	c, ok := t.(Checked)
	if !ok {
		return Done{}, false
	}
	if err := c.Check(call); err != nil {
		return failed(err), true
	}
	return Done{}, false
}

// readGuard is the guard of tools that read a path. fallback is the path of a call that names
// none.
func readGuard(fallback string) Guard {
	return Guard{Access: policy.AccessRead, Kind: policy.KindPath, Arguments: func(call Call) []string {
		return call.Workspace.ruleNames(call.parsed.optional("path", fallback, maxPath))
	}}
}

// editGuard is the guard of tools that change a file.
func editGuard() Guard {
	g := readGuard("")
	g.Access = policy.AccessEdit
	return g
}

// ruleNames returns a path as rules see it, and its target if it contains symbolic links. A path
// that leaves the workspace is only cleaned.
func (w *Workspace) ruleNames(name string) []string {
	below, err := w.rel(name)
	if err != nil {
		return []string{path.Clean(filepath.ToSlash(name))}
	}
	names := []string{below}
	// A file that does not exist yet is located by its nearest existing directory.
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

// Guard: the argument is the directory in which the search starts, including the fixed
// directories of the pattern.
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

// Guard: the argument is the name of the agent. Giving a task to an agent does nothing by itself;
// what the agent does is decided on when it does it.
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

// fieldArgument makes rules match a call by a field of its input.
func fieldArgument(name string, limit int) func(Call) []string {
	return func(call Call) []string { return []string{call.parsed.optional(name, "", limit)} }
}

// textField returns a text field of an input; empty if there is none.
func textField(raw json.RawMessage, name string) string {
	return newInput(raw).optional(name, "", maxError)
}

// Guard: the argument is the name of the skill.
func (skillTool) Guard() Guard {
	return Guard{Access: policy.AccessRead, Arguments: fieldArgument("name", maxSkill)}
}

// Guard: the argument is the normalised URL, as it is fetched. Text that is not a URL is passed on
// unchanged; it is never fetched.
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
	return Guard{Access: policy.AccessRead, Arguments: fieldArgument("page", maxDocsText)}
}

// Guard: the names of tools are not secret; calls of the found tools are decided on separately.
func (findTool) Guard() Guard { return Guard{Access: policy.AccessRead} }
