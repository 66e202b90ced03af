package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// TestKnown: of what is held the session goes first in which nothing has happened for
// longest, and each after a while.
func TestKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKnown(1)
		keep := func(n byte, tasks int) *session {
			view := tree.NewView(&tree.Session{ID: tree.SessionID{n}})
			for i := range tasks {
				id := tree.TaskID{n, byte(i >> 8), byte(i)}
				view.PutTask(id, &tree.Task{ID: id})
			}
			s := &session{view: view}
			k.keep(tree.SessionID{n}, s)
			return s
		}
		held := func(want ...byte) {
			t.Helper()
			if k.sessions.Len() != len(want) {
				t.Errorf("%d sessions are held, want %v", k.sessions.Len(), want)
			}
			tasks := 0
			for _, n := range want {
				if s, there := k.sessions.Peek(tree.SessionID{n}); there {
					tasks += s.size
				} else {
					t.Errorf("session %d is not held", n)
				}
			}
			if k.tasks != tasks {
				t.Errorf("%d tasks are counted, %d are held", k.tasks, tasks)
			}
		}
		const most = knownTasks
		first := keep(1, most/2)
		keep(2, most/4)
		held(1, 2)
		k.keep(tree.SessionID{1}, first) // something has happened in it
		keep(3, most/2)
		held(1, 3)
		time.Sleep(knownFor / 2)
		k.keep(tree.SessionID{1}, first)
		time.Sleep(knownFor / 2)
		k.forgetIdle()
		held(1)
		k.forget(tree.SessionID{1})
		held()
		keep(4, most+1)
		held()
	})
}
