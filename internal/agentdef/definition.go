// Package agentdef holds the definitions of agents: who an agent is, which tools
// it may use, which agents it may give tasks to, and its prompt. A definition is
// a Markdown file whose front matter says what machines need and whose body is
// the prompt:
//
//	---
//	name: reviewer
//	description: Reviews a change and reports what is wrong with it.
//	mode: subagent
//	tools: [grep, read]
//	---
//
//	You review changes to a program. ...
package agentdef

import (
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/policy"
)

// Definition is an agent as [Parse] read it. It is shared: don't change it.
type Definition struct {
	// Name is what others call the agent: [a-z0-9][a-z0-9_-]{0,63}, with that of its
	// plugin and a colon before it if it comes from one.
	Name string
	// Description says when to use the agent; a model chooses by it.
	Description string
	Mode        Mode
	// Model is the name of the model; empty leaves the choice to who starts the agent.
	Model string
	// Tools are entries (see [policy.EntryMatches]) for the tools it may use; empty means all
	// but those that have to be named.
	Tools []string
	// DisallowedTools are entries for tools it may not use, whatever Tools says.
	DisallowedTools []string
	// DeferredTools are entries for tools that it is handed only when it has looked
	// for them.
	DeferredTools []string
	// Skills are the names of the skills it may load; empty means all.
	Skills []string
	// Spawns are globs (as of path.Match) of the agents it may give tasks to;
	// empty means all that may be spawned. Without the tool task it spawns none.
	Spawns []string
	// MaxIterations is how many model calls a run may take; 0 leaves it to the
	// default for the depth of the task.
	MaxIterations int
	// Timeout is how long a run may be with workers in all; 0 is for ever.
	Timeout time.Duration
	// FailOnInterrupt ends a run that loses its worker, instead of going on with it
	// on another: on_interrupt is fail, not resume.
	FailOnInterrupt bool
	// Background lets the agent run in the background unless the call that spawns it
	// says otherwise.
	Background bool
	// Reminder is what the model is reminded of with every call, after all else.
	Reminder string
	// Permissions are what its runs may do, as far as who starts it may: permissions,
	// approvals and background_tools.
	Permissions policy.Permissions
	// ForkContext lets the agent see the conversation of whoever spawns it.
	ForkContext bool
	// Worktree gives the agent, as a sub-agent, a git worktree of its own to work in:
	// isolation is worktree.
	Worktree bool
	// CompactAt is how many tokens its conversation may have before the older part
	// is summed up; 0 leaves it to the model's window.
	CompactAt int
	// Hooks run when the agent starts and stops as a sub-agent.
	Hooks []hook.Spec
	// OnComplete is the URL that is called when a run of the agent has ended.
	OnComplete string
	// Prompt is the system prompt: the body of the file.
	Prompt string
	// Source is where the definition comes from: a path, or built-in.
	Source string
	// Version is made from all of the above but Source: equal definitions have
	// equal versions wherever they come from.
	Version string
}

// Mode says where in a tree an agent may stand.
type Mode uint8

// The modes of an agent.
const (
	ModeUnspecified Mode = iota
	Primary              // it may be a root
	Subagent             // it may be spawned by another agent
	Both                 // it may be either
)

func (m Mode) String() string {
	switch m {
	case Primary:
		return "primary"
	case Subagent:
		return "subagent"
	case Both:
		return "both"
	}
	return "unspecified"
}

// Root reports whether the agent may be the root of a tree.
func (m Mode) Root() bool { return m == Primary || m == Both }

// Spawnable reports whether another agent may spawn the agent.
func (m Mode) Spawnable() bool { return m == Subagent || m == Both }

func parseMode(s string) (Mode, bool) {
	for _, m := range []Mode{Primary, Subagent, Both} {
		if s == m.String() {
			return m, true
		}
	}
	return ModeUnspecified, false
}

// taskTool is the tool that spawns agents.
const taskTool = "task"

// Allows reports whether the agent may use a tool.
func (d *Definition) Allows(tool string) bool {
	names := func(entry string) bool { return policy.EntryMatches(entry, tool) }
	return (len(d.Tools) == 0 || slices.ContainsFunc(d.Tools, names)) && !slices.ContainsFunc(d.DisallowedTools, names)
}

// MayUse reports whether the agent may use any of the tools that an entry names, as
// far as that can be told without knowing the tools.
func (d *Definition) MayUse(entry string) bool {
	meets := func(other string) bool { return policy.EntriesOverlap(other, entry) }
	// A glob that names the entry's own text names all that the entry does.
	covers := func(other string) bool { return other == entry || policy.EntryMatches(other, entry) }
	return (len(d.Tools) == 0 || slices.ContainsFunc(d.Tools, meets)) && !slices.ContainsFunc(d.DisallowedTools, covers)
}
