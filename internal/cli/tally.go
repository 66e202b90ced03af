package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// tally counts tasks by the state of their current run.
type tally struct {
	fresh, running, pending, waiting, done, failed, cancelled int
}

func (t *tally) add(n *node) {
	switch n.state {
	case pb.TaskState_TASK_STATE_NEW:
		t.fresh++
	case pb.TaskState_TASK_STATE_RUNNING:
		t.running++
	case pb.TaskState_TASK_STATE_WAITING:
		t.waiting++
	case pb.TaskState_TASK_STATE_COMPLETED:
		t.done++
	case pb.TaskState_TASK_STATE_FAILED:
		t.failed++
	case pb.TaskState_TASK_STATE_CANCELLED:
		t.cancelled++
	default:
		t.pending++
	}
}

// addBelow counts a node and everything below it.
func (t *tally) addBelow(n *node) {
	t.add(n)
	for _, c := range n.children {
		t.addBelow(c)
	}
}

func (t tally) total() int {
	return t.fresh + t.running + t.pending + t.waiting + t.done + t.failed + t.cancelled
}

// String lists the counts: "1 failed, 2 running, 9 done".
func (t tally) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		name string
	}{
		{t.failed, "failed"}, {t.running, "running"}, {t.waiting, "waiting"}, {t.pending, "pending"}, {t.fresh, "new"},
		{t.cancelled, "cancelled"}, {t.done, "done"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.name))
		}
	}
	return strings.Join(parts, ", ")
}

// more formats the counts as an addition: "12 more done", "12 more: 2 failed, 10 done".
func (t tally) more() string {
	if kinds := t.String(); strings.Contains(kinds, ",") {
		return fmt.Sprintf("%d more: %s", t.total(), kinds)
	}
	return strings.Replace(t.String(), " ", " more ", 1)
}

// summary summarises the session on one line.
func (f *forest) summary(now time.Time, sep string) string {
	var all tally
	var calls, shown int64
	var spent tokenUsage
	for _, n := range f.order {
		all.add(n)
		spent = spent.plus(n.spent)
		calls += n.tools
		shown += n.denied
	}
	parts := []string{plural(int64(all.total()), "task"), all.String(), callsText(calls, max(shown, f.denied))}
	return strings.Join(append(parts, f.usageText(spent, now)...), sep)
}

// callsText counts tool calls, and how many of them were denied.
func callsText(all, denied int64) string {
	text := plural(all, "tool call")
	if denied > 0 {
		text += fmt.Sprintf(", %d denied", denied)
	}
	return text
}

// partialSummary says how much of a session its upper levels are, and summarises the session.
func (f *forest) partialSummary(s *pb.Session, now time.Time, sep string) string {
	parts := []string{fmt.Sprintf("%d of %s shown", len(f.order), plural(int64(s.GetTasks().GetTotal()), "task"))}
	if denied := int64(s.GetDeniedCalls()); denied > 0 {
		parts = append(parts, deniedCalls(denied))
	}
	return strings.Join(append(parts, f.usageText(tokenUsage{}.addUsage(s.GetUsage()), now)...), sep)
}

// usageText returns the tokens and the cost of the session, and the time of the root's current run.
func (f *forest) usageText(spent tokenUsage, now time.Time) []string {
	parts := []string{countText(spent.tokens) + " tokens"}
	if cost := spent.cost(); cost != "" {
		parts = append(parts, cost)
	}
	if f.root != nil {
		parts = append(parts, f.whoseTime()+durationText(f.root.elapsed(now)))
	}
	return parts
}

// whoseTime says what the time is of, if that is less than the other figures: these are of all runs
// and branches, whose times nothing adds up.
func (f *forest) whoseTime() string {
	switch branched := slices.ContainsFunc(f.order, func(n *node) bool { return n.branch }); {
	case f.root.run > 1 && branched:
		return fmt.Sprintf("root, run %d: ", f.root.run)
	case f.root.run > 1:
		return fmt.Sprintf("run %d: ", f.root.run)
	case branched:
		return "root: "
	}
	return ""
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// countText formats a number: 812, 4.2k, 42k, 1.3M.
func countText(n int64) string {
	const k, m = 1000, 1000_000
	switch {
	case n < k:
		return fmt.Sprint(n)
	case n < 10*k-50:
		return fmt.Sprintf("%.1fk", float64(n)/k)
	case n < m-500:
		return fmt.Sprintf("%.0fk", float64(n)/k)
	}
	return fmt.Sprintf("%.1fM", float64(n)/m)
}

// durationText formats a duration: 3.2s, 42s, 3m05s, 2h03m, 4d02h.
func durationText(d time.Duration) string {
	d = max(0, d)
	s := int64(d / time.Second)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", float64(d/(100*time.Millisecond))/10)
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}
