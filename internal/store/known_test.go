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

// TestTrust: a session is trusted again once it was read as it is held, and what another replica
// has written is not, until then.
func TestTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was, want trust
		there     int64 // the version that is read; the one that is held is 1
		stays     bool
	}{
		"nothing was held":              {absent, trusted, 1, false},
		"it is no novelty":              {novel, trusted, 1, false},
		"nobody has written":            {trusted, trusted, 1, true},
		"another has written":           {trusted, shared, 2, false},
		"another has written no more":   {shared, trusted, 1, true},
		"another writes on":             {shared, shared, 2, false},
		"what is held was not stored":   {spoiled, shared, 1, false},
		"nor was it, and another wrote": {spoiled, shared, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := tree.NewView(&tree.Session{})
			s := &session{trust: c.was, view: view}
			if c.was > novel {
				s.row = &sessionAsStored{beside: beside{version: 1}}
			}
			s.read(&tree.Session{}, beside{version: c.there})
			if s.trust != c.want || (s.view == view) != c.stays || s.row.version != c.there {
				t.Errorf("it is %d with version %d, and what was held stays: %t", s.trust, s.row.version, s.view == view)
			}
			newKnown(1).keep(tree.SessionID{1}, s)
			if s.trust != c.want {
				t.Errorf("with a commit it becomes %d", s.trust)
			}
		})
	}
}

// TestPresent: the time does not fall behind because an answer was long on its way, and
// follows a clock that was set back after a while.
func TestPresent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ahead = time.Hour // of the clock there
		var p present
		answered := func(late time.Duration) { p.hear(time.Now().Add(ahead-late), time.Now()) }
		behind := func(want time.Duration) {
			t.Helper()
			if got := time.Now().Add(ahead).Sub(p.at(time.Now())); got != want {
				t.Errorf("the time is %s behind, want %s", got, want)
			}
		}
		answered(time.Second)
		behind(time.Second)
		answered(time.Millisecond)
		behind(time.Millisecond)
		time.Sleep(presentFor)
		if p.lately() {
			t.Error("what is no news counts as such")
		}
		answered(2 * time.Second)
		behind(time.Millisecond)
		if !p.lately() {
			t.Error("a slow answer is none")
		}
		time.Sleep(clockFor - presentFor)
		behind(time.Millisecond)
		answered(time.Minute) // or the clock was set back
		behind(time.Millisecond)
		time.Sleep(time.Microsecond)
		answered(time.Minute)
		behind(time.Minute)
	})
}
