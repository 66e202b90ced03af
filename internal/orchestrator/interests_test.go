package orchestrator

import (
	"slices"
	"testing"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestInterestsReportChanges(t *testing.T) {
	t.Parallel()
	w := newTextInterests()
	oak, elm := aSession(), aSession()
	begins := func(id tree.SessionID) dispatch.Interest { return dispatch.Interest{Session: id} }
	ends := func(id tree.SessionID) dispatch.Interest { return dispatch.Interest{Session: id, Over: true} }
	told := func(what string, all bool, want ...dispatch.Interest) {
		t.Helper()
		got := w.take(all)
		for _, one := range want {
			if !slices.Contains(got, one) {
				t.Errorf("%s: %v is not told", what, one)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: told is %v, want %v", what, got, want)
		}
	}
	news := func(what string, want bool) {
		t.Helper()
		select {
		case <-w.changed:
			if !want {
				t.Errorf("%s: there are no news", what)
			}
		default:
			if want {
				t.Errorf("%s: nobody is told", what)
			}
		}
	}
	told("nobody watches", true)
	leaveOak, leaveToo, leaveElm := w.join(oak), w.join(oak), w.join(elm)
	news("two sessions are watched", true)
	told("two sessions are watched", false, begins(oak), begins(elm))
	told("that is known", false)
	told("all is told again", true, begins(oak), begins(elm))
	leaveOak()
	news("one of two leaves", false)
	told("one of two leaves", false)
	leaveToo()
	news("all leave one", true)
	told("all leave one", true, begins(elm), ends(oak))
	leaveElm()
	leaveAgain := w.join(elm)
	told("who left is back", false)
	leaveAgain()
	told("the last has left", false, ends(elm))
	w.join(oak)()
	if !w.isEmpty() {
		t.Error("who was there for a moment has left something to tell")
	}
}
