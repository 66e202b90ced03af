package orchestrator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestCalling: which of the callbacks that are due are made, while others are under way.
func TestCalling(t *testing.T) {
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
		"there is no room":             {many(callbacksAtOnce, host), "a/100", "", true},
		"there is room for some": {
			many(callbacksAtOnce-2, host), "h0/100 a/101 a/102 b/103", "a/101 b/103", true,
		},
	} {
		parse := func(text string) (all []store.Callback) {
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
		calls := newCalling()
		var underWay []store.Callback
		for _, one := range parse(c.underWay) {
			now, _ := calls.begin([]store.Callback{one})
			underWay = append(underWay, now...)
		}
		now, some := calls.begin(parse(c.due))
		got := make([]string, len(now))
		for i := range now {
			got[i] = strings.TrimPrefix(now[i].URL, "https://")
		}
		if strings.Join(got, " ") != c.want || some != c.some {
			t.Errorf("%s: %v are made, some wait: %t; want %s, %t", name, got, some, c.want, c.some)
		}
		for _, called := range append(underWay, now...) {
			calls.end(called)
		}
		if len(calls.runs)+len(calls.hosts) > 0 {
			t.Errorf("%s: %+v are under way though all have ended", name, calls)
		}
	}
}
