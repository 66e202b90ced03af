package store

import "github.com/coppice-run/coppice/internal/tree"

// recent remembers sessions and active tasks as the last commits left them, so
// that they need not be read again. It is right because nobody else writes to a
// database that is locked, and because only what was committed gets in. Only the
// committer looks at it.
type recent struct {
	sessions map[tree.SessionID]tree.Session
	tasks    map[inSession[tree.TaskID]]tree.Task
}

// forgetRecentAbove is how many rows of a kind are remembered before all of them
// are forgotten.
const forgetRecentAbove = 10_000

func newRecent() recent {
	return recent{
		sessions: map[tree.SessionID]tree.Session{},
		tasks:    map[inSession[tree.TaskID]]tree.Task{},
	}
}

// keep takes in what has just been committed for a session.
func (r *recent) keep(id tree.SessionID, c *tree.Changes) {
	if len(r.sessions) > forgetRecentAbove {
		clear(r.sessions)
	}
	if len(r.tasks) > forgetRecentAbove {
		clear(r.tasks)
	}
	if c.Session != nil {
		r.sessions[id] = *c.Session
	}
	for task, t := range c.Tasks {
		key := inSession[tree.TaskID]{id, task}
		if t.State.Terminal() && t.Depth > 0 {
			delete(r.tasks, key)
			continue
		}
		r.tasks[key] = *t
	}
}
