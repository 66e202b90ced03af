package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// callbacks: an ended run leaves its callback. It becomes due again when its lease expires,
// survives a restart, and is deleted when it was answered.
func callbacks(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "go")
	c := child("look")
	task := b.must(id, tree.SpawnTask{Parent: root, Child: c}).(tree.Spawned).Task
	w := b.claim(id, task)
	b.must(id, tree.StartHooks{From: w.from(), Ran: []tree.HookRun{
		{Event: tree.SubagentStart, Name: "rules", Outcome: tree.HookPassed, Output: "be brief"},
	}})
	b.must(id, tree.StopHooks{From: w.from(), Answer: &tree.Message{Blocks: say("done?")}, Ran: []tree.HookRun{
		{Event: tree.SubagentStop, Name: "gate", Outcome: tree.HookBlocked, Output: "not yet"},
	}})
	b.restart()
	now := must[*tree.Task](t)(b.Task(t.Context(), id, task))
	if !now.StartHooked || now.StopHooked != 1 || now.OnComplete != helper.OnComplete || now.NextOrdinal != 5 {
		t.Errorf("the task is %+v", now)
	}
	if due := must[int](t)(b.dueCallbacks()); due != 0 {
		t.Errorf("%d callbacks are due before the end", due)
	}
	w.answers("done")
	eq(t, "callbacks due", must[int](t)(b.dueCallbacks()), 1)
	take := tree.TakeCallback{CallbackKey: tree.CallbackKey{Task: task, Run: 1}, Lease: time.Minute, MaxTries: 5}
	b.must(id, take)
	eq(t, "callbacks due under a lease", must[int](t)(b.dueCallbacks()), 0)
	if _, err := b.Update(t.Context(), id, take); !errors.Is(err, tree.ErrNotDue) {
		t.Errorf("taking it twice: %v", err)
	}
	b.restart()
	b.clock.advance(2 * time.Minute)
	eq(t, "callbacks due after the lease", must[int](t)(b.dueCallbacks()), 1)
	again := b.must(id, take).(tree.CallbackTaken).Callback
	eq(t, "the try", again.Tries, 2)
	eq(t, "the URL", again.URL, helper.OnComplete)
	b.must(id, tree.SettleCallback{CallbackKey: tree.CallbackKey{Task: task, Run: 1}, Try: 2, MaxTries: 5, Delivered: true})
	b.clock.advance(time.Hour)
	eq(t, "callbacks due after the delivery", must[int](t)(b.dueCallbacks()), 0)
	rows := must[*tree.SessionRows](t)(b.Rows(t.Context(), id))
	if found := tree.Diagnose(rows); len(found) > 0 || len(rows.Callbacks) > 0 {
		t.Errorf("found %+v, left %+v", found, rows.Callbacks)
	}
}

// callbacksOfApprovals: an open approval leaves its callback. It becomes due again if it is not
// settled, and ends when it is settled or the approval is decided.
func callbacksOfApprovals(t *testing.T, d Dialect) {
	b := setup(t, d)
	cmd := create(1)
	cmd.Message, cmd.OnApproval, cmd.OnComplete = say("go"), "https://X.example/asked", "https://x.example/ended"
	root := b.must(cmd.ID, cmd).(tree.Created).Root
	w := b.claim(cmd.ID, root)
	w.calls("bash", "bash")
	for block := range 2 {
		b.must(cmd.ID, tree.Ask{From: w.from(), Block: block + 1, Argument: "x", Rules: []string{"bash"}})
	}
	asked := b.approvalPages(cmd.ID, false, 10)
	b.restart()
	due := b.asked(2)
	if due[0].Session != cmd.ID || due[0].Callback != *asked[0].Callback() || due[0].URL != cmd.OnApproval || due[0].Approval != asked[0].ID {
		t.Errorf("%+v is due of %+v", due[0], asked[0])
	}
	take := tree.TakeCallback{CallbackKey: due[0].Key(), Lease: time.Minute, MaxTries: 5}
	b.must(cmd.ID, take)
	eq(t, "what is due under a lease", b.asked(1)[0].Approval, asked[1].ID)
	b.clock.advance(2 * time.Minute)
	b.asked(2)
	again := b.must(cmd.ID, take).(tree.CallbackTaken).Callback
	eq(t, "its tries", again.Tries, 2)
	b.must(cmd.ID, tree.SettleCallback{CallbackKey: due[0].Key(), Try: 2, MaxTries: 5, Delivered: true})
	b.asked(1)
	b.must(cmd.ID, tree.DecideApproval{ID: asked[1].ID})
	b.asked(0)
	eq(t, "callbacks of runs", must[int](t)(b.dueCallbacks()), 0)
	b.must(cmd.ID, tree.Cancel{Detail: "enough"})
	eq(t, "callbacks of runs at the end", must[int](t)(b.dueCallbacks()), 1)
	if found := tree.Diagnose(must[*tree.SessionRows](t)(b.Rows(t.Context(), cmd.ID))); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

// asked gives the due callbacks of approvals, and fails unless there are exactly so many.
func (b *bundle) asked(want int) []store.Callback {
	b.t.Helper()
	due, next, err := b.DueApprovalCallbacks(b.t.Context(), "", 10, 10)
	if err != nil || next != "" || len(due) != want {
		b.t.Fatalf("due are %+v, %q, %v; want %d", due, next, err, want)
	}
	return due
}

// callbackHosts: however many callbacks of one host are due, those of other hosts are found.
func callbackHosts(t *testing.T, d Dialect) {
	b := setup(t, d)
	for n, url := range []string{
		"https://a.example/x", "https://a.example/y", "HTTPS://A.example?z", "https://a.example#/", "https://a.example",
		"http://b/", "https://a.example:1/", "https://a.example.b/", "http://b",
	} {
		cmd, agent := create(n+1), *general
		agent.OnComplete = url
		cmd.Agent, cmd.Message = &agent, say("go")
		root := b.must(cmd.ID, cmd).(tree.Created).Root
		b.must(cmd.ID, tree.Cancel{Task: root})
		b.clock.advance(time.Second)
	}
	for _, c := range []struct {
		ofHost, limit int
		want          string
	}{
		{1, 10, "1 6 7 8"},
		{2, 10, "1 6 7 8 2 9"},
		{10, 10, "1 6 7 8 2 9 3 4 5"},
		{10, 5, "1 6 7 8 2"},
	} {
		due, next, err := b.DueCallbacks(t.Context(), "", c.ofHost, c.limit)
		if next != "" || err != nil {
			t.Errorf("there are more hosts after %q: %v", next, err)
		}
		got := make([]string, len(due))
		for i := range due {
			got[i] = fmt.Sprint(due[i].Session[15])
		}
		eq(t, fmt.Sprintf("%d of a host, %d at most", c.ofHost, c.limit), strings.Join(got, " "), c.want)
	}
}

// callbackRound: one read covers some hosts, and consecutive reads cover all of them, however many
// there are. A host may be as long as a URL.
func callbackRound(t *testing.T, d Dialect) {
	const hosts = 300
	b := setup(t, d)
	long := strings.Builder{}
	for n := range 2000 {
		fmt.Fprint(&long, n*n*n)
	}
	var ended errgroup.Group
	for n := range hosts {
		ended.Go(func() error {
			cmd, agent := create(n+1), *general
			agent.OnComplete = fmt.Sprintf("https://%d.%s", n, long.String())
			cmd.Agent, cmd.Message = &agent, say("go")
			answer, err := b.Update(t.Context(), cmd.ID, cmd)
			if err == nil {
				_, err = b.Update(t.Context(), cmd.ID, tree.Cancel{Task: answer.(tree.Created).Root})
			}
			return err
		})
	}
	if err := ended.Wait(); err != nil {
		t.Fatal(err)
	}
	found := map[tree.SessionID]bool{}
	looks, after := 0, ""
	for more := true; more; more = after != "" {
		due, next, err := b.DueCallbacks(t.Context(), after, 10, hosts)
		if err != nil {
			t.Fatal(err)
		}
		for i := range due {
			found[due[i].Session] = true
		}
		after = next
		looks++
	}
	eq(t, "the hosts that were found", len(found), hosts)
	eq(t, "whether one look was enough", looks == 1, false)
}

func (b *bundle) dueCallbacks() (int, error) {
	due, _, err := b.DueCallbacks(b.t.Context(), "", 10, 10)
	return len(due), err
}

// callback makes up what happens to the callback of a task's first run.
func (h *history) callback(t *tree.Task) tree.Command {
	if h.rng.IntN(2) == 0 {
		return tree.TakeCallback{CallbackKey: tree.CallbackKey{Task: t.ID, Run: 1}, Lease: time.Second, MaxTries: 3}
	}
	return tree.SettleCallback{
		CallbackKey: tree.CallbackKey{Task: t.ID, Run: 1}, Try: 1, MaxTries: 3, Delivered: h.rng.IntN(3) == 0, Retry: time.Second, Detail: "no answer",
	}
}

// hooks makes up the results of start hooks or stop hooks.
func (h *history) hooks(from tree.From) tree.Command {
	if h.rng.IntN(2) == 0 {
		return tree.StartHooks{From: from, Ran: []tree.HookRun{
			{Event: tree.SubagentStart, Name: "rules", Outcome: tree.HookPassed, Output: "be brief"},
		}}
	}
	return tree.StopHooks{
		From: from, Answer: &tree.Message{Blocks: say("done"), Model: "m-1", Stop: tree.StopEndTurn},
		Ran: []tree.HookRun{{Event: tree.SubagentStop, Name: "gate", Outcome: tree.HookBlocked, Output: "not yet"}},
	}
}

// compareCallbacks compares the stored callbacks with those in memory.
func (h *history) compareCallbacks(want *tree.Changes) {
	h.t.Helper()
	rows := must[*tree.SessionRows](h.t)(h.Rows(h.t.Context(), session(1)))
	open := 0
	for _, c := range want.Callbacks {
		if c != nil {
			open++
		}
	}
	eq(h.t, "the number of callbacks", len(rows.Callbacks), open)
	for _, c := range rows.Callbacks {
		eq(h.t, "a callback", c, *want.Callbacks[tree.ChildRun{Task: c.Task, Run: c.Run}])
	}
}
