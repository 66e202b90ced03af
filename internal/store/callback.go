package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// Callback is a callback with its session.
type Callback struct {
	Session tree.SessionID
	tree.Callback
}

func callbackRow(c *Callback) []any {
	return []any{idColumn(&c.Session), idColumn(&c.Task), &c.Run, &c.URL, &c.Tries, timeColumn{&c.Due}}
}

func plainCallbackRow(c *tree.Callback) []any {
	return []any{idColumn(new(tree.SessionID)), idColumn(&c.Task), &c.Run, &c.URL, &c.Tries, timeColumn{&c.Due}}
}

// askedRow is the row of an approval's callback.
func askedRow(c *Callback) []any { return append(callbackRow(c), idColumn(&c.Approval)) }

// hostWith is the expression for the host of a callback, exactly as the indices callbacks_host and
// approvals_host have it. find is the function that finds a text in another.
func hostWith(find string) string {
	return "lower(substr(url, 1, " + find + "(replace(replace(substr(url, 9, 300), '?', '/'), '#', '/') || '/', '/') + 7))"
}

// One read for callbacks is limited to maxHostsPerScan hosts and maxCallbacksPerScan callbacks.
const (
	maxHostsPerScan     = 256
	maxCallbacksPerScan = 8 * maxHostsPerScan
)

// DueCallbacks finds due callbacks of runs, at most ofHost per host: the oldest of each host first,
// then the next of each. So no host hides others, however many callbacks it has. It scans some
// hosts after a given one; the empty host is before the first. next is the host to continue after;
// empty if these were the last. The cost does not depend on how many callbacks there are.
func (s *Store) DueCallbacks(ctx context.Context, after string, ofHost, limit int) (due []Callback, next string, err error) {
	return s.dueCallbacks(ctx, "callbacks_hosts", "callbacks_due", callbackRow, after, ofHost, limit)
}

// DueApprovalCallbacks finds due callbacks of open approvals, as DueCallbacks does for runs.
func (s *Store) DueApprovalCallbacks(ctx context.Context, after string, ofHost, limit int) (due []Callback, next string, err error) {
	return s.dueCallbacks(ctx, "asked_hosts", "asked_due", askedRow, after, ofHost, limit)
}

// dueCallbacks finds callbacks with the named statements.
func (s *Store) dueCallbacks(
	ctx context.Context, ofHosts, ofDue string, row func(*Callback) []any, after string, ofHost, limit int,
) (due []Callback, next string, err error) {
	hosts, err := query(ctx, s.db, ofHosts, func(host *string) []any { return []any{host} }, after, maxHostsPerScan)
	if err != nil || len(hosts) == 0 {
		return nil, "", err
	}
	ofHost = min(ofHost, maxCallbacksPerScan/len(hosts))
	keys := make([][]any, len(hosts))
	for i := range hosts {
		keys[i] = []any{s.clock(), &hosts[i], &ofHost}
	}
	var found []callbackWithHost
	if err := s.db.load(ctx, each(&found, ofDue, func(h *callbackWithHost) []any { return append(row(&h.Callback), &h.host) }, keys)); err != nil {
		return nil, "", err
	}
	if len(hosts) == maxHostsPerScan {
		next = hosts[len(hosts)-1]
	}
	return interleaveHosts(found, limit), next, nil
}

// CallbacksOf gives all callbacks of a session's runs that are not settled, due or not.
func (s *Store) CallbacksOf(ctx context.Context, id tree.SessionID) ([]tree.Callback, error) {
	return query(ctx, s.db, "session_callbacks", plainCallbackRow, idColumn(&id))
}

// callbackWithHost is a callback with its host.
type callbackWithHost struct {
	Callback
	host string
	nth  int // among those of its host
}

// interleaveHosts takes the first callback of each host, then the second of each, and so on. The
// callbacks of a host keep their order.
func interleaveHosts(found []callbackWithHost, limit int) []Callback {
	of := map[string]int{}
	for i := range found {
		found[i].nth = of[found[i].host]
		of[found[i].host]++
	}
	slices.SortStableFunc(found, func(a, b callbackWithHost) int { return cmp.Or(cmp.Compare(a.nth, b.nth), a.Due.Compare(b.Due)) })
	due := make([]Callback, min(len(found), limit))
	for i := range due {
		due[i] = found[i].Callback
	}
	return due
}
