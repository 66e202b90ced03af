package store

import (
	"maps"

	"github.com/coppice-run/coppice/internal/tree"
)

// recent remembers sessions and active tasks as the last commits left them, so
// that they need not be read again. It is right because only what was committed
// gets in, and only where nobody else writes to the database: elsewhere it stays
// empty. Only the committer looks at it.
type recent struct {
	sessions map[tree.SessionID]storedSession
	tasks    map[inSession[tree.TaskID]]tree.Task
}

// storedSession is a session as it is in its row.
type storedSession struct {
	tree.Session
	fairTag int64 // of its last ready run
}

// forgetRecentAbove is how many rows of a kind are remembered before all of them
// are forgotten.
const forgetRecentAbove = 10_000

func newRecent() recent {
	return recent{
		sessions: map[tree.SessionID]storedSession{},
		tasks:    map[inSession[tree.TaskID]]tree.Task{},
	}
}

// forget drops all that is remembered of a session.
func (r *recent) forget(id tree.SessionID) {
	delete(r.sessions, id)
	maps.DeleteFunc(r.tasks, func(k inSession[tree.TaskID], _ tree.Task) bool { return k.session == id })
}

// keep takes in what has just been committed for a session.
func (r *recent) keep(id tree.SessionID, c *tree.Changes, fairTag int64) {
	if len(r.sessions) > forgetRecentAbove {
		clear(r.sessions)
	}
	if len(r.tasks) > forgetRecentAbove {
		clear(r.tasks)
	}
	if c.Session != nil {
		r.sessions[id] = storedSession{*c.Session, fairTag}
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
