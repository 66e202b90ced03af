package store

import (
	"maps"

	"github.com/coppice-run/coppice/internal/tree"
)

// recent remembers sessions and active tasks as the last commits left them. Only what
// was committed gets in. Where nobody else writes to the database it is right, so that
// they need not be read again; elsewhere it is good for guesses. Only the committer
// looks at it.
type recent struct {
	sessions map[tree.SessionID]storedSession
	tasks    map[inSession[tree.TaskID]]tree.Task
	most     int // rows of a kind
}

// storedSession is a session as it is in its row.
type storedSession struct {
	tree.Session
	fairTag int64 // of its last ready run
}

// forgetRecentAbove is how many rows of a kind a store remembers before all of them are
// forgotten.
const forgetRecentAbove = 10_000

// newRecent is for one of so many committers.
func newRecent(committers int) recent {
	return recent{
		sessions: map[tree.SessionID]storedSession{},
		tasks:    map[inSession[tree.TaskID]]tree.Task{},
		most:     forgetRecentAbove / committers,
	}
}

// clear forgets everything.
func (r *recent) clear() {
	clear(r.sessions)
	clear(r.tasks)
}

// forget drops all that is remembered of a session.
func (r *recent) forget(id tree.SessionID) {
	delete(r.sessions, id)
	maps.DeleteFunc(r.tasks, func(k inSession[tree.TaskID], _ tree.Task) bool { return k.session == id })
}

// keep takes in what has just been committed for a session.
func (r *recent) keep(id tree.SessionID, c *tree.Changes, fairTag int64) {
	if len(r.sessions) > r.most {
		clear(r.sessions)
	}
	if len(r.tasks) > r.most {
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
