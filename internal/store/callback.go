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

// askedRow is the callback of an approval.
func askedRow(c *Callback) []any { return append(callbackRow(c), idColumn(&c.Approval)) }

// hostWith is what a callback calls, as the indices callbacks_host and approvals_host have it:
// with the function that finds a text in another.
func hostWith(find string) string {
	return "lower(substr(url, 1, " + find + "(replace(replace(substr(url, 9, 300), '?', '/'), '#', '/') || '/', '/') + 7))"
}

// What a look for callbacks reads is bounded by maxHostsPerScan hosts and maxCallbacksPerScan callbacks.
const (
	maxHostsPerScan     = 256
	maxCallbacksPerScan = 8 * maxHostsPerScan
)

// DueCallbacks finds callbacks of runs that may be taken, so many of each host at most: first the
// oldest of each, then the next of each. So no host hides others, whatever is due of it. It
// looks at some hosts after one, where the empty host is before the first, and says after which
// to go on; if that is the empty one, these were the last. What it reads does not depend on how
// many callbacks there are.
func (s *Store) DueCallbacks(ctx context.Context, after string, ofHost, limit int) (due []Callback, next string, err error) {
	return s.dueCallbacks(ctx, "callbacks_hosts", "callbacks_due", callbackRow, after, ofHost, limit)
}

// DueApprovalCallbacks finds callbacks of open approvals, as DueCallbacks does those of runs.
func (s *Store) DueApprovalCallbacks(ctx context.Context, after string, ofHost, limit int) (due []Callback, next string, err error) {
	return s.dueCallbacks(ctx, "asked_hosts", "asked_due", askedRow, after, ofHost, limit)
}

// dueCallbacks finds callbacks with the statements of these names.
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

// CallbacksOf gives the callbacks of a session's runs that have not ended, due or not.
func (s *Store) CallbacksOf(ctx context.Context, id tree.SessionID) ([]tree.Callback, error) {
	return query(ctx, s.db, "session_callbacks", plainCallbackRow, idColumn(&id))
}

// callbackWithHost is a callback with its host.
type callbackWithHost struct {
	Callback
	host string
	nth  int // of those of the host
}

// interleaveHosts takes the first callback of each host, then the next of each. Those of a host are in
// their order.
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
