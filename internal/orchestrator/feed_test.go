package orchestrator

import (
	"slices"
	"strconv"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// commits is what a replica has committed of a session: so many events, up to one.
func commits(last int64, events int) store.SessionUpdate {
	t := store.SessionUpdate{Session: tree.SessionID{1}, LastSeq: last}
	for n := last - int64(events) + 1; n <= last; n++ {
		t.Events = append(t.Events, []byte(strconv.FormatInt(n, 10)))
	}
	return t
}

// TestOffered: a tail is given what this replica has committed, unless that may not be all
// that comes after what it has seen.
func TestOffered(t *testing.T) {
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
		"very much":                     {commits: []store.SessionUpdate{commits(5, 2), commits(5+offeredMost, offeredMost)}, seen: 3, read: true},
	} {
		h := newHub()
		f := newFeed()
		leave := h.join(tree.SessionID{1}, f)
		for _, commit := range c.commits {
			h.committed(commit)
		}
		if c.nudged {
			h.poke(tree.SessionID{1})
		}
		news := h.take(f)
		found, all := news.after(c.seen)
		got := make([]string, 0, len(found))
		for _, data := range found {
			got = append(got, string(data))
		}
		if all == c.read || !slices.Equal(got, c.want) {
			t.Errorf("%s: given is %q, all of it: %v; want %q, %v", name, got, all, c.want, !c.read)
		}
		if left := h.take(f); len(left.events) > 0 || left.unsure {
			t.Errorf("%s: it is offered again: %+v", name, left)
		}
		leave()
	}
}
