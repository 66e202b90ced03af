package orchestrator

import (
	"slices"
	"strconv"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// commits returns a commit of so many events of a session, of which last is the last.
func commits(last int64, events int) store.SessionUpdate {
	t := store.SessionUpdate{Session: tree.SessionID{1}, LastSeq: last}
	for n := last - int64(events) + 1; n <= last; n++ {
		t.Events = append(t.Events, []byte(strconv.FormatInt(n, 10)))
	}
	return t
}

// TestEventBuffer: a tail gets the events that this replica has committed, unless some of those
// that follow its last one may be missing.
func TestEventBuffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commits []store.SessionUpdate
		nudged  bool
		seen    int64
		want    []string
		read    bool
	}{
		"nothing":                       {seen: 3, read: true},
		"the next":                      {commits: []store.SessionUpdate{commits(5, 2)}, seen: 3, want: []string{"4", "5"}},
		"the next two commits":          {commits: []store.SessionUpdate{commits(5, 2), commits(6, 1)}, seen: 3, want: []string{"4", "5", "6"}},
		"some of it was seen":           {commits: []store.SessionUpdate{commits(5, 2), commits(6, 1)}, seen: 4, want: []string{"5", "6"}},
		"all of it was seen":            {commits: []store.SessionUpdate{commits(5, 2)}, seen: 9},
		"others have committed before":  {commits: []store.SessionUpdate{commits(7, 2)}, seen: 3, read: true},
		"others have committed between": {commits: []store.SessionUpdate{commits(5, 2), commits(8, 1)}, seen: 3, read: true},
		"others say so":                 {commits: []store.SessionUpdate{commits(5, 2)}, nudged: true, seen: 3, read: true},
		"very much":                     {commits: []store.SessionUpdate{commits(5, 2), commits(5+maxBuffered, maxBuffered)}, seen: 3, read: true},
	} {
		h := newHub()
		f := newTailFeed()
		leave := h.subscribe(tree.SessionID{1}, f)
		for _, commit := range c.commits {
			h.notifyCommit(commit)
		}
		if c.nudged {
			h.notify(tree.SessionID{1})
		}
		news := h.takeBuffer(f)
		found, all := news.after(c.seen)
		got := make([]string, 0, len(found))
		for _, data := range found {
			got = append(got, string(data))
		}
		if all == c.read || !slices.Equal(got, c.want) {
			t.Errorf("%s: given is %q, all of it: %v; want %q, %v", name, got, all, c.want, !c.read)
		}
		if left := h.takeBuffer(f); len(left.events) > 0 || left.incomplete {
			t.Errorf("%s: it is offered again: %+v", name, left)
		}
		leave()
	}
}
