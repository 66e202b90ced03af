// Package hook runs what an operator hangs on the start and the stop of
// sub-agents: a command, or a call over HTTP. Which hooks there are is read from a
// file of the worker's and from the definitions of agents; which of them match is
// a pure question. Whatever goes wrong with a hook is its outcome, never a failure
// of the run.
package hook

import (
	"path"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// DefaultTimeout is how long a hook may take that says nothing of it.
const DefaultTimeout = 30 * time.Second

// The bounds of a timeout that a hook may say.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 10 * time.Minute
)

// Spec is a hook as it is configured: a command or a URL.
type Spec struct {
	Name    string
	Event   tree.HookEvent
	Matcher string   // a glob (as of path.Match) of names of agents; empty: all
	Command []string // the program and its arguments
	URL     string
	Timeout time.Duration // 0: DefaultTimeout
}

// Matches reports whether the hook is for an event of an agent.
func (s *Spec) Matches(event tree.HookEvent, agent string) bool {
	if s.Event != event {
		return false
	}
	ok, err := path.Match(s.matcher(), agent)
	return ok && err == nil
}

func (s *Spec) matcher() string {
	if s.Matcher == "" {
		return "*"
	}
	return s.Matcher
}

func (s *Spec) timeout() time.Duration {
	if s.Timeout == 0 {
		return DefaultTimeout
	}
	return s.Timeout
}

// matching gives the hooks for an event of an agent, in their order, no more than a
// run may have.
func matching(specs []Spec, event tree.HookEvent, agent string) []Spec {
	found := slices.DeleteFunc(slices.Clone(specs), func(s Spec) bool { return !s.Matches(event, agent) })
	return found[:min(len(found), tree.MaxHooks)]
}
