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
		k := newSessionCache(1)
		keep := func(n byte, tasks int) *cachedSession {
			view := tree.NewView(&tree.Session{ID: tree.SessionID{n}})
			for i := range tasks {
				id := tree.TaskID{n, byte(i >> 8), byte(i)}
				view.PutTask(id, &tree.Task{ID: id})
			}
			s := &cachedSession{view: view}
			k.put(tree.SessionID{n}, s)
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
					tasks += s.taskCount
				} else {
					t.Errorf("session %d is not held", n)
				}
			}
			if k.taskCount != tasks {
				t.Errorf("%d tasks are counted, %d are held", k.taskCount, tasks)
			}
		}
		const most = maxCachedTasks
		first := keep(1, most/2)
		keep(2, most/4)
		held(1, 2)
		k.put(tree.SessionID{1}, first) // something has happened in it
		keep(3, most/2)
		held(1, 3)
		time.Sleep(sessionCacheTTL / 2)
		k.put(tree.SessionID{1}, first)
		time.Sleep(sessionCacheTTL / 2)
		k.evictIdle()
		held(1)
		k.remove(tree.SessionID{1})
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
		was, want cacheState
		there     int64 // the version that is read; the one that is held is 1
		stays     bool
	}{
		"nothing was held":              {cacheAbsent, cacheValid, 1, false},
		"it is no novelty":              {cachePresumedNew, cacheValid, 1, false},
		"nobody has written":            {cacheValid, cacheValid, 1, true},
		"another has written":           {cacheValid, cacheContended, 2, false},
		"another has written no more":   {cacheContended, cacheValid, 1, true},
		"another writes on":             {cacheContended, cacheContended, 2, false},
		"what is held was not stored":   {cacheDirty, cacheContended, 1, false},
		"nor was it, and another wrote": {cacheDirty, cacheContended, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := tree.NewView(&tree.Session{})
			s := &cachedSession{state: c.was, view: view}
			if c.was > cachePresumedNew {
				s.row = &storedSession{sessionExtras: sessionExtras{version: 1}}
			}
			s.loadRow(&tree.Session{}, sessionExtras{version: c.there})
			if s.state != c.want || (s.view == view) != c.stays || s.row.version != c.there {
				t.Errorf("it is %d with version %d, and what was held stays: %t", s.state, s.row.version, s.view == view)
			}
			newSessionCache(1).put(tree.SessionID{1}, s)
			if s.state != c.want {
				t.Errorf("with a commit it becomes %d", s.state)
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
		var p dbClock
		answered := func(late time.Duration) { p.update(time.Now().Add(ahead-late), time.Now()) }
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
		time.Sleep(clockFreshFor)
		if p.isFresh() {
			t.Error("what is no news counts as such")
		}
		answered(2 * time.Second)
		behind(time.Millisecond)
		if !p.isFresh() {
			t.Error("a slow answer is none")
		}
		time.Sleep(clockSampleFor - clockFreshFor)
		behind(time.Millisecond)
		answered(time.Minute) // or the clock was set back
		behind(time.Millisecond)
		time.Sleep(time.Microsecond)
		answered(time.Minute)
		behind(time.Minute)
	})
}
