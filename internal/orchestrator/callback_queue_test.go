package orchestrator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestCallbackQueue: which due callbacks are made while others are running.
func TestCallbackQueue(t *testing.T) {
	t.Parallel()
	many := func(hosts int, of func(i int) string) string {
		all := make([]string, hosts)
		for i := range all {
			all[i] = of(i)
		}
		return strings.Join(all, " ")
	}
	host := func(i int) string { return fmt.Sprintf("h%d/%d", i, i) }
	for name, c := range map[string]struct {
		underWay, due, want string // HOST/TASK
		some                bool
	}{
		"nothing":                      {"", "", "", false},
		"one host":                     {"", "a/1 a/2 a/3", "a/1 a/2 a/3", false},
		"one host has enough":          {"", "a/1 a/2 a/3 a/4 a/5 b/6", "a/1 b/6 a/2 a/3 a/4", true},
		"it has enough already":        {"a/1 a/2 a/3 a/4", "a/5 a/6 b/7", "b/7", true},
		"those of a few go first":      {"a/1 a/2 b/3", "a/4 b/5 c/6", "c/6 b/5 a/4", false},
		"it is written in another way": {"a/1 A/2 a/3", "A/4 a/5", "A/4", true},
		"it is under way, not taken":   {"a/1 b/2", "a/1 b/2 a/3", "a/3", false},
		"there is no room":             {many(maxCallbacks, host), "a/100", "", true},
		"there is room for some": {
			many(maxCallbacks-2, host), "h0/100 a/101 a/102 b/103", "a/101 b/103", true,
		},
	} {
		calls := newCallbackQueue()
		var underWay []hostCallback
		for _, one := range dueTo(t, c.underWay) {
			calls.setDue([]store.Callback{one}, false)
			underWay = append(underWay, calls.startNext()...)
		}
		calls.setDue(dueTo(t, c.due), false)
		now := calls.startNext()
		if got := hostsAndTasks(now); got != c.want || calls.hasWaited != c.some {
			t.Errorf("%s: %s are made, some wait: %t; want %s, %t", name, got, calls.hasWaited, c.want, c.some)
		}
		for _, called := range append(underWay, now...) {
			calls.finish(called)
		}
		if len(calls.running)+len(calls.runningByHost) > 0 {
			t.Errorf("%s: %+v are under way though all have ended", name, calls)
		}
	}
}

// TestCallsFollowOneAnother: when a call ends, the next one to its host begins without another
// look.
func TestCallsFollowOneAnother(t *testing.T) {
	t.Parallel()
	calls := newCallbackQueue()
	calls.setDue(dueTo(t, "a/1 a/2 a/3 a/4 b/5 a/6 b/7 a/8"), false)
	now := calls.startNext()
	if got := hostsAndTasks(now); got != "a/1 b/5 a/2 b/7 a/3 a/4" {
		t.Fatalf("%s are made first", got)
	}
	for _, next := range []struct{ ended, want string }{{"a/3", "a/6"}, {"b/5", ""}, {"a/1", "a/8"}, {"a/6", ""}} {
		i := slices.IndexFunc(now, func(c hostCallback) bool { return hostsAndTasks([]hostCallback{c}) == next.ended })
		calls.finish(now[i])
		begun := calls.startNext()
		if got := hostsAndTasks(begun); got != next.want {
			t.Errorf("when %s has ended %q are made, want %q", next.ended, got, next.want)
		}
		now = append(now, begun...)
	}
	if calls.lookSoon == nil {
		t.Error("some had to wait, and nobody looks whether there are more")
	}
	calls.setDue(dueTo(t, "a/2 b/7"), true)
	if got := hostsAndTasks(calls.startNext()); got != "" || calls.hasWaited || calls.lookSoon == nil {
		t.Errorf("%s are made that are under way; or nobody looks at the other hosts: %+v", got, calls)
	}
}

// TestCallsGoByWhenTheyAreDue: callbacks of approvals, which are found first, do not delay those of
// runs that have been due for longer.
func TestCallsGoByWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	due := dueTo(t, "a/1 a/2 a/3 a/4 a/5 b/6 a/7")
	for i, after := range []time.Duration{6, 5, 4, 3, 2, 9, 1} {
		due[i].Due = time.Unix(1_800_000_000, int64(after))
	}
	calls := newCallbackQueue()
	calls.setDue(due, false)
	if got := hostsAndTasks(calls.startNext()); got != "a/7 b/6 a/5 a/4 a/3" {
		t.Errorf("%s are made first", got)
	}
}

// dueTo returns due callbacks, given as HOST/TASK.
func dueTo(t *testing.T, text string) (all []store.Callback) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		var task byte
		host, number, _ := strings.Cut(word, "/")
		if _, err := fmt.Sscan(number, &task); err != nil {
			t.Fatal(err)
		}
		all = append(all, store.Callback{Callback: tree.Callback{Task: tree.TaskID{task}, URL: "https://" + host + "/" + number}})
	}
	return all
}

// hostsAndTasks returns callbacks in the form that dueTo takes.
func hostsAndTasks(calls []hostCallback) string {
	words := make([]string, len(calls))
	for i := range calls {
		words[i] = strings.TrimPrefix(calls[i].URL, "https://")
	}
	return strings.Join(words, " ")
}
