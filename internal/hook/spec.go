// Package hook runs hooks when sub-agents start and stop: commands or HTTP calls. Hooks are
// configured in a file of the worker and in agent definitions. Matching them is a pure
// function. A hook that fails has a failed outcome; it never makes the run fail.
package hook

import (
	"path"
	"slices"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// DefaultTimeout is the timeout of hooks that set none.
const DefaultTimeout = 30 * time.Second

// Bounds of a configured timeout.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 10 * time.Minute
)

// Spec is the configuration of a hook: a command or a URL.
type Spec struct {
	Name    string
	Event   tree.HookEvent
	Matcher string   // glob (path.Match) for agent names; empty: all
	Command []string // program and arguments
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

// matching returns the hooks for an event of an agent, in order, up to the maximum for a run.
func matching(specs []Spec, event tree.HookEvent, agent string) []Spec {
	found := slices.DeleteFunc(slices.Clone(specs), func(s Spec) bool { return !s.Matches(event, agent) })
	return found[:min(len(found), tree.MaxHooks)]
}
