package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// inbox: the entries that wait for a task are kept, oldest first, until they are removed.
func inbox(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, "go")
	w := b.claim(id, root)
	work := w.spawns(w.calls("task"), 1, true)
	b.must(id, tree.Send{Message: say("one")})
	b.clock.advance(time.Second)
	b.claim(id, work).answers("found it")
	b.must(id, tree.Send{Message: say("two")})
	waiting := must[[]tree.InboxEntry](t)(b.Inbox(t.Context(), id, root))
	eq(t, "what waits", len(waiting), 3)
	eq(t, "what came second", waiting[1].News, tree.ChildRun{Task: work, Run: 1})
	eq(t, "what came first", waiting[0].Blocks[0].(tree.Text).Text, "one")
	cleared := b.must(id, tree.ClearInbox{}).(tree.Cleared)
	eq(t, "how many messages are taken away", cleared.Messages, 2)
	eq(t, "what is left", len(must[[]tree.InboxEntry](t)(b.Inbox(t.Context(), id, root))), 1)
	w.answers("done")
	b.events(id)
}

// tracedLater: the turn that starts with queued messages has as its parent span that of the first
// message that named one.
func tracedLater(t *testing.T, d Dialect) {
	for name, restart := range map[string]bool{"held": false, "read again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, d)
			id, root := session(1), b.create(1, "go")
			w := b.claim(id, root)
			first := tree.Trace{ID: [16]byte{15: 1}, Parent: 1 << 63, Flags: tree.TraceGiven | 1}
			for _, trace := range []tree.Trace{{}, first, {ID: [16]byte{2}, Parent: 2}} {
				b.must(id, tree.Send{Message: say("more"), Trace: trace})
			}
			if restart {
				b.restart()
			}
			waiting := must[[]tree.InboxEntry](t)(b.Inbox(t.Context(), id, root))
			eq(t, "how many wait", len(waiting), 3)
			eq(t, "what the second was sent with", waiting[1].Trace, first)
			w.answers("done")
			now := must[*tree.Task](t)(b.Task(t.Context(), id, root))
			eq(t, "the run", now.Run, 2)
			eq(t, "where it hangs", now.Trace, first)
			eq(t, "what is said", len(must[[]tree.Message](t)(b.Transcript(t.Context(), id, root, now.NextOrdinal-4, 0))), 3)
		})
	}
}

// clockSetBack: later changes never get an earlier time, even if the clock was set back.
func clockSetBack(t *testing.T, d Dialect) {
	for name, restart := range map[string]bool{"held": false, "read again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, d)
			id, root := session(1), b.create(1, "go")
			w := b.claim(id, root)
			w.calls("task")
			for _, text := range []string{"one", "two", "three"} {
				b.must(id, tree.Send{Message: say(text)})
				b.clock.advance(-time.Hour)
				if restart {
					b.restart()
				}
			}
			var texts []string
			for _, e := range must[[]tree.InboxEntry](t)(b.Inbox(t.Context(), id, root)) {
				texts = append(texts, e.Blocks[0].(tree.Text).Text)
			}
			eq(t, "what waits", strings.Join(texts, " "), "one two three")
			now := must[*tree.Session](t)(b.Session(t.Context(), "acme", id))
			if now.UpdatedAt.Before(now.CreatedAt) {
				t.Errorf("the session is of %s, and has changed at %s", now.CreatedAt, now.UpdatedAt)
			}
		})
	}
}

// clockAhead: if the clock was ahead for a moment, only the session that changed then has a later
// time, and no session that shares a transaction with it afterwards.
func clockAhead(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.create(1, "")
	root := b.create(2, "")
	b.clock.advance(24 * time.Hour)
	b.must(session(1), tree.ChangeSession{Title: "tomorrow"})
	b.clock.advance(-24 * time.Hour)
	b.close()
	b.open()
	var both []*store.Pending
	for id, cmd := range map[tree.SessionID]tree.Command{session(1): tree.ChangeSession{Title: "today"}, session(2): tree.Send{Message: say("go")}} {
		both = append(both, must[*store.Pending](t)(b.Submit(t.Context(), id, cmd)))
	}
	b.run()
	for _, p := range both {
		must[tree.Answer](t)(p.Wait(t.Context()))
	}
	now := must[*tree.Session](t)(b.Session(t.Context(), "acme", session(2)))
	if late := now.UpdatedAt.Sub(b.clock.Now()); late > 0 {
		t.Errorf("a session beside one of tomorrow is dated %s ahead", late)
	}
	b.clock.advance(time.Minute) // its hint is lost
	again := b.take(10)
	if len(again) != 1 || again[0].Task != root {
		t.Errorf("offered again is %v, want the root's run", again)
	}
}

// readOutput: what a call shows of a run under way stays the same when the run has continued; of a
// long answer the end is shown.
func readOutput(t *testing.T, d Dialect) {
	b := setup(t, d)
	cmd := create(1)
	cmd.Limits.OutputBytes, cmd.Message = 40, say("go")
	root := b.must(cmd.ID, cmd).(tree.Created).Root
	w := b.claim(cmd.ID, root)
	work := w.spawns(w.calls("task"), 1, true)
	child := b.claim(cmd.ID, work)
	child.calls("read")
	look := func(timeout time.Duration) {
		w.calls("task_output")
		b.must(cmd.ID, tree.AwaitTask{From: w.from(), Block: 1, Target: work, Timeout: timeout})
	}
	shown := func() string {
		t.Helper()
		all := must[[]tree.Message](t)(b.Transcript(t.Context(), cmd.ID, root, 0, 0))
		for _, m := range slices.Backward(all) {
			if m.Role == tree.RoleTool {
				return m.Blocks[0].(tree.ToolResult).Text
			}
		}
		t.Fatal("there is no result")
		return ""
	}
	look(0)
	first := shown()
	for _, want := range []string{`"status":"running"`, `"output":"let me see"`, `"prompt":"do it"`, `"kind":"agent"`, `"progress":"running, 1 tool use,`} {
		if !strings.Contains(first, want) {
			t.Errorf("%s is not in %s", want, first)
		}
	}
	child.closes(1, "x", false)
	running := must[*tree.Task](t)(b.Task(t.Context(), cmd.ID, work))
	out, err := b.Output(t.Context(), running)
	if err != nil || out.Cut || out.Output.Output != "let me see" || out.Prompt != "do it" {
		t.Errorf("the output is %+v, %v", out, err)
	}
	child.answers(strings.Repeat("x", 100) + "the end")
	all := must[[]tree.Message](t)(b.Transcript(t.Context(), cmd.ID, root, 0, 0))
	eq(t, "what was shown before", all[4].Blocks[0].(tree.ToolResult).Text, first)
	look(time.Second)
	last := shown()
	for _, want := range []string{`"status":"completed"`, `the end"`, "[cut: the first 67 of 107 bytes", "message 4 of sessions/" + cmd.ID.String()} {
		if !strings.Contains(last, want) {
			t.Errorf("%s is not in %s", want, last)
		}
	}
	ended := must[*tree.Task](t)(b.Task(t.Context(), cmd.ID, work))
	if out, err := b.Output(t.Context(), ended); err != nil || !out.Cut {
		t.Errorf("the end of a long answer: %+v, %v", out, err)
	}
	eq(t, "all model calls", ended.AllIterations, 2)
	eq(t, "the activities", ended.Recent, "read")
}

// filter: sessions are found by their metadata.
func filter(t *testing.T, d Dialect) {
	b := setup(t, d)
	for n, metadata := range []map[string]string{
		nil, {"a": "1"}, {"a": "1", `b"\`: "ü"}, {"a": "2", "c": "3"}, {"nul": "a\x00b", "a": "1"},
		{"path": `C:\u0000dir`, `\\u0000`: "x"}, {"nul": "\\\x00"}, // the first of them has no NUL, but its six letters
	} {
		cmd := create(n + 1)
		cmd.Metadata = metadata
		b.must(cmd.ID, cmd)
		b.clock.advance(time.Second)
	}
	for _, c := range []struct {
		filter map[string]string
		want   string
	}{
		{nil, "7 6 5 4 3 2 1"}, {map[string]string{}, "7 6 5 4 3 2 1"},
		{map[string]string{"a": "2"}, "4"}, {map[string]string{"a": "2", "c": "3"}, "4"},
		{map[string]string{"a": "2", "c": "4"}, ""}, {map[string]string{`b"\`: "ü"}, "3"}, {map[string]string{"x": ""}, ""},
		{map[string]string{"path": `C:\u0000dir`}, "6"}, {map[string]string{`\\u0000`: "x"}, "6"},
	} {
		page, err := b.Sessions(t.Context(), "acme", "", 10, c.filter)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, len(page.Rows))
		for i := range page.Rows {
			id := page.Rows[i].ID
			got[i] = fmt.Sprint(id[15])
		}
		eq(t, fmt.Sprintf("what has %v", c.filter), strings.Join(got, " "), c.want)
	}
}

// purge: a deleted session does not exist any more. Its rows, and no others, are removed in steps,
// also after a restart.
func purge(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, other := session(1), session(2)
	for n := range 2 {
		root := b.create(n+1, "go")
		w := b.claim(session(n+1), root)
		w.spawns(w.calls("task"), 1, true)
		b.must(session(n+1), tree.Send{Message: say("wait")})
	}
	key := store.Key{Key: "k"}
	must[tree.Answer](t)(b.UpdateOnce(t.Context(), id, key, tree.SpawnTask{Child: child("look")}))
	kept := b.dump(other)
	b.must(id, tree.ChangeSession{Title: "renamed"})
	eq(t, "the title", must[*tree.Session](t)(b.Session(t.Context(), "acme", id)).Title, "renamed")
	before := b.dump(id)
	eq(t, "whether there may be more to purge", must[bool](t)(b.Purge(t.Context())), false)
	eq(t, "a session that was not deleted", b.dump(id), before)
	b.must(id, tree.DeleteSession{})
	if _, err := b.Session(t.Context(), "acme", id); !errors.Is(err, tree.ErrNoSession) {
		t.Errorf("a deleted session: %v", err)
	}
	if _, err := b.Rows(t.Context(), id); !errors.Is(err, tree.ErrNoSession) {
		t.Errorf("the rows of a deleted session: %v", err)
	}
	if _, err := b.Update(t.Context(), id, create(1)); !errors.Is(err, tree.ErrDeleting) {
		t.Errorf("a session of a deleted one's id: %v", err)
	}
	b.restart()
	b.purged()
	eq(t, "its tasks", len(must[[]tree.Task](t)(b.Tree(t.Context(), id))), 0)
	events, err := b.Events(t.Context(), id, 0, 10)
	if err != nil || len(events) > 0 {
		t.Errorf("its events are %v, %v", events, err)
	}
	b.create(1, "anew")
	must[tree.Answer](t)(b.UpdateOnce(t.Context(), id, key, tree.SpawnTask{Child: child("other")}))
	eq(t, "its events", b.events(id) < 10, true)
	eq(t, "another session", b.dump(other), kept)
}

// purged purges everything that was deleted, and counts the steps.
func (b *bundle) purged() (steps int) {
	b.t.Helper()
	for more := true; more; steps++ {
		more = must[bool](b.t)(b.Purge(b.t.Context()))
	}
	return steps
}

// purgeSteps: one step removes many small sessions, and a large session takes several steps, also
// after a crash between them.
func purgeSteps(t *testing.T, d Dialect) {
	const small, large = 100, 2500
	b := setup(t, d)
	for n := range small {
		b.create(n+1, "go")
		b.must(session(n+1), tree.DeleteSession{})
	}
	if steps := b.purged(); steps < small/50 || steps > small/10 {
		t.Errorf("%d small sessions went in %d steps", small, steps)
	}
	b.spread(1, large, 3) // its id may be used again
	b.must(session(1), tree.DeleteSession{})
	eq(t, "whether there may be more after a step", must[bool](t)(b.Purge(t.Context())), true)
	left := len(must[[]tree.Task](t)(b.Tree(t.Context(), session(1))))
	if left == 0 || left > large {
		t.Errorf("%d tasks are left after a step", left)
	}
	b.restart()
	if steps := b.purged(); steps < 2 {
		t.Errorf("a large session went in %d steps", steps)
	}
	eq(t, "how many tasks are left", len(must[[]tree.Task](t)(b.Tree(t.Context(), session(1)))), 0)
}

// old: sessions with no run under way and no recent change are found.
func old(t *testing.T, d Dialect) {
	b := setup(t, d)
	b.create(1, "")
	b.create(2, "go")
	b.create(3, "go")
	b.must(session(3), tree.CloseSession{})
	b.create(4, "")
	b.must(session(4), tree.DeleteSession{})
	b.clock.advance(time.Hour)
	b.create(5, "")
	for look := 1; look < 7; look++ {
		var found []tree.SessionID
		var after tree.SessionID
		for range 7 {
			old, last, err := b.InactiveSessions(t.Context(), time.Minute, after, look)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, old...)
			if after = last; last.IsZero() {
				break
			}
		}
		if !slices.Equal(found, []tree.SessionID{session(1), session(3)}) {
			t.Errorf("%d at once, these are old: %v", look, found)
		}
	}
	if _, err := b.Update(t.Context(), session(2), tree.DeleteSession{IdleFor: time.Minute}); !errors.Is(err, tree.ErrInUse) {
		t.Errorf("a session with a run: %v", err)
	}
}
