// Package agentdef reads agent definitions: the name of an agent, the tools that it may use,
// the agents that it may spawn, and its prompt. A definition is a Markdown file with structured
// front matter. Its body is the prompt:
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
	"github.com/coppice-run/coppice/internal/tree"
)

// Definition is a parsed agent definition. It is shared and must not be changed.
type Definition struct {
	// Name identifies the agent: [a-z0-9][a-z0-9_-]{0,63}, prefixed with the name of its plugin
	// and a colon if it comes from one.
	Name string
	// Description says when to use the agent. Models choose agents by it.
	Description string
	Mode        tree.Mode // where in a tree it may be
	// Model is the name of the model. If it is empty, the parent or client that starts the
	// agent chooses.
	Model string
	// Tools are the entries (see [policy.EntryMatches]) for the tools that it may use. If it is empty,
	// it may use all tools except those that must be named.
	Tools []string
	// DisallowedTools are entries for tools that it may not use. They override Tools.
	DisallowedTools []string
	// DeferredTools are entries for tools that it gets only after it has searched for them.
	DeferredTools []string
	// Skills are the names of the skills that it may load. If it is empty, it may load all.
	Skills []string
	// Spawns are globs (path.Match) of the agents that it may spawn. If it is empty, it may
	// spawn all spawnable agents. Without the tool task it spawns none.
	Spawns []string
	// MaxIterations bounds the model calls of a run. 0 means the default for the depth of the
	// task.
	MaxIterations int
	// Timeout bounds the total time that a run may be with workers. 0 means no bound.
	Timeout time.Duration
	// FailOnInterrupt makes a run fail when its worker is lost, instead of continuing on
	// another worker (on_interrupt: fail).
	FailOnInterrupt bool
	// Background makes the agent run in the background unless the call that spawns it says
	// otherwise.
	Background bool
	// Reminder is added after the last message of each model call.
	Reminder string
	// Permissions limit what its runs may do, within the permissions of the parent:
	// permissions, approvals and background_tools.
	Permissions policy.Permissions
	// ForkContext gives the agent the conversation of its parent.
	ForkContext bool
	// Worktree gives the agent its own git worktree when it is a sub-agent (isolation:
	// worktree).
	Worktree bool
	// CompactAt is the number of tokens from which the older part of its conversation is
	// summarised. 0 means that the model's window decides.
	CompactAt int
	// Hooks run when the agent starts and stops as a sub-agent.
	Hooks []hook.Spec
	// OnComplete is the URL that is called when a run of the agent has ended.
	OnComplete string
	// Prompt is the system prompt: the body of the file.
	Prompt string
	// Source is the path of the file, or "built-in".
	Source string
	// Version is a hash of all other fields except Source. Equal definitions have equal
	// versions.
	Version string

	unfit string // what a new definition must not contain, though a stored one may
}

func parseMode(s string) (tree.Mode, bool) {
	for _, m := range []tree.Mode{tree.ModePrimary, tree.ModeSubagent, tree.ModeBoth} {
		if s == m.String() {
			return m, true
		}
	}
	return tree.ModeUnspecified, false
}

// Allows reports whether the agent may use a tool.
func (d *Definition) Allows(tool string) bool {
	names := func(entry string) bool { return policy.EntryMatches(entry, tool) }
	return (len(d.Tools) == 0 || slices.ContainsFunc(d.Tools, names)) && !slices.ContainsFunc(d.DisallowedTools, names)
}

// MayUse reports whether the agent may use any tool that an entry matches, as far as can be
// decided without the list of tools.
func (d *Definition) MayUse(entry string) bool {
	meets := func(other string) bool { return policy.EntriesOverlap(other, entry) }
	// A glob that matches the text of the entry also matches all tools that the entry matches.
	covers := func(other string) bool { return other == entry || policy.EntryMatches(other, entry) }
	return (len(d.Tools) == 0 || slices.ContainsFunc(d.Tools, meets)) && !slices.ContainsFunc(d.DisallowedTools, covers)
}
