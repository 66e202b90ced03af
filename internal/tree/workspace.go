package tree

import (
	"strings"

	"github.com/google/uuid"
)

// maxWorkspace limits the name of a workspace, in bytes.
const maxWorkspace = 100

// CheckWorkspace refuses an invalid name of a shared workspace. It must be the name of one
// directory, and not that of a session's own directory, which is the session's id.
func CheckWorkspace(name string) error {
	if name == "" {
		return nil
	}
	if len(name) > maxWorkspace {
		return ErrTooLarge.With("the name of the workspace has %d bytes, the limit is %d", len(name), maxWorkspace)
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || r != '.' && r != '_' && r != '-') {
			return ErrBadInput.With("the workspace %q: expected letters, digits, ., _ and -, the first a letter or digit", name)
		}
	}
	if len(name) == len(uuid.Nil.String()) && uuid.Validate(name) == nil {
		return ErrBadInput.With("the workspace %q: a name that looks like a session id is reserved for the directory of that session", name)
	}
	return nil
}

// setWorktrees sets where a task works: where its parent does, or in a worktree of its own below
// that if its agent wants one.
func (t *Task) setWorktrees(parent *Task, agent Agent) {
	t.Worktrees = parent.Worktrees
	if agent.Worktree {
		t.Worktrees = strings.TrimSpace(t.Worktrees + " " + t.ID.String())
	}
}
