package tree

import (
	"errors"
	"fmt"
	"slices"
)

// checker looks at the rows of a session for whatever breaks an invariant.
type checker struct {
	*database
	broken []error
}

// check reports every invariant that the rows break.
func (db *database) check() error {
	if db.session == nil {
		return nil
	}
	c := &checker{database: db}
	c.totals()
	c.log()
	for _, t := range db.tasks {
		c.place(&t)
		c.state(&t)
		c.attempt(&t)
		c.wait(&t)
		c.openCallsOf(&t)
		c.transcript(&t)
		c.usage(&t)
		c.links(&t)
		c.authority(&t)
	}
	c.results()
	c.leftovers()
	c.told()
	c.approvalsOf()
	for _, v := range Diagnose(db.rows()) {
		c.must(false, "diagnosed at %s: %s: %s", v.Task, v.Rule, v.Detail)
	}
	return errors.Join(c.broken...)
}

// must records a broken invariant unless it holds.
func (c *checker) must(holds bool, format string, args ...any) {
	if !holds {
		c.broken = append(c.broken, fmt.Errorf(format, args...))
	}
}

// totals: the session's counts are the counted tasks, and the caps hold.
func (c *checker) totals() {
	s := c.session
	counted := Session{}
	roots := 0
	for _, t := range c.tasks {
		counted.Total++
		counted.count(t.Kind, t.State, 1)
		counted.Usage = counted.Usage.Add(t.Usage)
		if t.Parent.IsZero() && t.Branch != BranchHuman {
			roots++
			c.must((t.ID == s.Root) == (t.Branch == BranchMain), "task %s has no parent and is branch %d", t.ID, t.Branch)
		}
	}
	c.must(roots == 1, "there are %d roots", roots)
	c.must(counted.Total == s.Total && counted.Pending == s.Pending && counted.Running == s.Running && counted.Waiting == s.Waiting && counted.Shells == s.Shells,
		"the session counts %d, %d, %d, %d, %d tasks; there are %d, %d, %d, %d, %d",
		s.Total, s.Pending, s.Running, s.Waiting, s.Shells, counted.Total, counted.Pending, counted.Running, counted.Waiting, counted.Shells)
	c.must(counted.Usage == s.Usage, "the session's usage is %v, its tasks' %v", s.Usage, counted.Usage)
	c.must(s.Total <= s.Limits.Total, "%d tasks, the cap is %d", s.Total, s.Limits.Total)
	c.must(s.Running <= s.Limits.Running, "%d running tasks, the cap is %d", s.Running, s.Limits.Running)
}

// log: the events are gap-free, and each run is one Started, whatever happens,
// and at most one Result with nothing after it but the next run.
func (c *checker) log() {
	c.must(c.session.NextSeq == int64(len(c.events)+1), "the next event is %d after %d", c.session.NextSeq, len(c.events))
	current := map[TaskID]int{}
	active := map[TaskID]bool{}
	epochs := map[TaskID]int64{}
	background := map[TaskID]int{} // live runs that somebody asked for in the background
	poor := map[TaskID]bool{}      // the budget was spent when a worker got the run
	var then Session               // its usage and budget at each event
	for i, e := range c.events {
		c.must(e.Seq == int64(i+1), "event %d at place %d", e.Seq, i+1)
		then.pays(e.Kind)
		if m, ok := e.Kind.(MessageAppended); ok {
			if m.UpTo > 0 || m.Role == RoleAssistant && c.tasks[e.Task].Kind != KindShell {
				then.ModelCalls++
			}
			c.must(m.Activity == c.activityAfter(e.Task, m), "event %d says that the run does %q", e.Seq, m.Activity)
		}
		if r, ok := e.Kind.(CallResolved); ok && r.Denial.Cause != DenialUnspecified {
			then.DeniedCalls++
		}
		switch kind := e.Kind.(type) {
		case SessionOpened:
			c.must(i == 0, "the session is opened by event %d", e.Seq)
			continue
		case SessionChanged, InboxCleared, InboxEmpty, BranchOpened, BranchSelected, Imported:
			c.must(e.Run == 0, "event %d (%T) is of run %d", e.Seq, e.Kind, e.Run)
			continue
		case CallbackEnded:
			_, over := c.runs[ChildRun{e.Task, kind.Run}]
			c.must(e.Run == 0 && (over || !kind.Approval.IsZero() && kind.Run == current[e.Task]), "event %d tells of a callback of run %d, which goes on", e.Seq, kind.Run)
			continue
		case Started:
			c.must(!active[e.Task] && e.Run == current[e.Task]+1, "event %d starts run %d after run %d", e.Seq, e.Run, current[e.Task])
			active[e.Task], current[e.Task] = true, e.Run
			if kind.Background {
				background[c.asked[ChildRun{e.Task, e.Run}].by]++
			}
		case Backgrounded:
			background[c.asked[ChildRun{e.Task, e.Run}].by]++
		case Queued:
			if e.Run == 0 {
				c.must(!active[e.Task], "event %d queues for no run, and one is active", e.Seq)
				continue
			}
		case Dispatched:
			c.must(kind.Epoch > epochs[e.Task], "event %d dispatches epoch %d again", e.Seq, kind.Epoch)
			epochs[e.Task], poor[e.Task] = kind.Epoch, then.spent() != ""
		}
		c.must(active[e.Task] && current[e.Task] == e.Run, "event %d (%T) is outside of its run %d", e.Seq, e.Kind, e.Run)
		if r, ends := e.Kind.(Result); ends {
			active[e.Task] = false
			run, there := c.runs[ChildRun{e.Task, e.Run}]
			c.must(there && run.State == r.State && run.Reason == r.Reason && run.Detail == r.Detail && run.Usage == r.Usage,
				"event %d says %v of a run that ended %v", e.Seq, r, run)
			answered := run.Answer > 0 && !run.Unfinished()
			c.must(!answered && r.Message.IsZero() || answered && r.Message == c.message(e.Task, run.Answer).ID,
				"event %d names another message than the answer, %d", e.Seq, run.Answer)
			if a := c.asked[ChildRun{e.Task, e.Run}]; a.background {
				background[a.by]--
			}
			used := run.Iterations >= c.tasks[e.Task].MaxIterations || then.spent() != "" || poor[e.Task] // nothing could be done with news
			c.must(c.tasks[e.Task].Depth == 0 || r.State != StateCompleted || used || background[e.Task] == 0,
				"event %d completes a sub-agent with %d live background children", e.Seq, background[e.Task])
		}
	}
	c.must(c.session.ModelCalls == then.ModelCalls, "%d model calls are counted, the log has %d", c.session.ModelCalls, then.ModelCalls)
	c.must(c.session.DeniedCalls == then.DeniedCalls, "%d denied calls are counted, the log has %d", c.session.DeniedCalls, then.DeniedCalls)
	for id, t := range c.tasks {
		c.must(t.State.Active() == active[id] && t.Run == current[id], "task %s is %s in run %d, its events differ", id, t.State, t.Run)
	}
}

// place: the task hangs in the tree within the caps.
func (c *checker) place(t *Task) {
	limits := c.session.Limits
	children := 0
	for _, other := range c.tasks {
		if other.Parent == t.ID {
			children++
		}
	}
	c.must(t.Children == children, "task %s counts %d children of %d", t.ID, t.Children, children)
	c.must(t.Children <= limits.Width, "task %s has %d children, the cap is %d", t.ID, t.Children, limits.Width)
	c.must(t.isShell() || t.Depth <= limits.Depth, "task %s is at depth %d, the cap is %d", t.ID, t.Depth, limits.Depth)
	c.must(t.Session == c.session.ID, "task %s is of another session", t.ID)
	if !t.Parent.IsZero() {
		parent, there := c.tasks[t.Parent]
		c.must(there && t.Depth == parent.Depth+1 && t.Branch == BranchSubagent, "task %s is not one below its parent", t.ID)
	}
}

// state: a run that has ended left its outcome and nothing else.
func (c *checker) state(t *Task) {
	run, ended := c.runs[ChildRun{t.ID, t.Run}]
	c.must(ended == t.State.Terminal(), "task %s is %s, run ended: %t", t.ID, t.State, ended)
	c.must((t.State == StateNew) == (t.Run == 0), "task %s is %s in run %d", t.ID, t.State, t.Run)
	if ended {
		c.must(run.State == t.State && run.Reason == t.Reason && run.Detail == t.Detail && run.Answer == t.Answer && run.Usage == t.RunUsage,
			"task %s and its run %d differ", t.ID, t.Run)
		if run.Unfinished() {
			last := c.lastWords(t)
			c.must(run.Answer == last, "task %s has said something last in message %d, and its run names %d", t.ID, last, run.Answer)
		}
		c.must(t.State != StateCompleted || t.Answer > 0, "task %s is completed without an answer", t.ID)
		c.must(t.OpenCalls == 0, "task %s has ended with open calls", t.ID)
		c.must(!t.EndedAt.Before(t.AcceptedAt), "task %s ended before it was accepted", t.ID)
	}
	for run := 1; run < t.Run; run++ {
		_, ended := c.runs[ChildRun{t.ID, run}]
		c.must(ended, "run %d of task %s has no end", run, t.ID)
	}
	c.base(t)
	if t.Depth == 0 && !t.State.Active() {
		c.must(t.State == StateCancelled || t.Reason == ReasonPoisoned || c.session.spent() != "" || t.Inbox == 0, "the root has ended with an inbox of %d", t.Inbox)
		for _, e := range c.inbox {
			c.must(e.Task != t.ID || e.News != ChildRun{} || !c.session.ClosedAt.IsZero(), "the root has ended and a user's message left in its inbox")
		}
	}
}

// attempt: pending is to have a ready row, running is to have an attempt.
func (c *checker) attempt(t *Task) {
	ready, isReady := c.ready[t.ID]
	attempt, isAttempt := c.attempts[t.ID]
	c.must(isReady == (t.State == StatePending), "task %s is %s, ready row: %t", t.ID, t.State, isReady)
	c.must(isAttempt == (t.State == StateRunning), "task %s is %s, attempt: %t", t.ID, t.State, isAttempt)
	c.must(!isReady || ready.Epoch == t.Epoch, "task %s is at epoch %d, ready under %d", t.ID, t.Epoch, ready.Epoch)
	c.must(!isAttempt || attempt.Epoch == t.Epoch && attempt.Attach == t.Attach && attempt.Replica == t.Replica && attempt.Worker == t.Worker,
		"task %s and its attempt differ", t.ID)
	c.must(isAttempt || t.CurrentAttempt == CurrentAttempt{}, "task %s is %s and keeps its attempt", t.ID, t.State)
	c.must(t.Strikes < MaxStrikes || t.Reason == ReasonPoisoned, "task %s has %d strikes", t.ID, t.Strikes)
	c.must(t.State == StateWaiting || !t.answered() || t.Inbox > 0, "task %s has answered, and goes on with nothing", t.ID)
	c.must(t.Iterations <= t.MaxIterations, "task %s made %d model calls, its cap is %d", t.ID, t.Iterations, t.MaxIterations)
}

// wait: a waiting run waits for something that can still come.
func (c *checker) wait(t *Task) {
	if t.State != StateWaiting {
		c.must(t.Wait == ParkedOn{}, "task %s is %s and waits for %v", t.ID, t.State, t.Wait)
		return
	}
	w := t.Wait
	c.must(w.Met < w.Total && w.Failed <= w.Met, "task %s waits with %d of %d met, %d failed", t.ID, w.Met, w.Total, w.Failed)
	switch w.Kind {
	case WaitCalls:
		c.must(w.Total-w.Met == t.OpenCalls, "task %s waits for %d of %d calls, %d are open", t.ID, w.Total-w.Met, w.Total, t.OpenCalls)
		for _, call := range c.openCalls(t.ID) {
			c.must(call.State == CallWaiting || call.State == CallAsking, "task %s waits, its call %v does not", t.ID, call.Ref)
		}
	case WaitBackground:
		c.must(w.Total-w.Met == t.LiveBackground, "task %s waits for %d of %d children, %d are alive",
			t.ID, w.Total-w.Met, w.Total, t.LiveBackground)
		c.must(t.OpenCalls == 0, "task %s waits for its children with open calls", t.ID)
		for _, e := range c.inboxOf(t.ID) {
			c.must(e.News != ChildRun{}, "task %s has answered and lets a message wait", t.ID)
		}
	default:
		c.must(false, "task %s waits for nothing", t.ID)
	}
}

// openCallsOf: the task's count and place of open calls are right.
func (c *checker) openCallsOf(t *Task) {
	open := c.openCalls(t.ID)
	c.must(len(open) == t.OpenCalls, "task %s counts %d open calls of %d", t.ID, t.OpenCalls, len(open))
	c.must((t.OpenMessage > 0) == (t.OpenCalls > 0), "task %s has %d open calls of message %d", t.ID, t.OpenCalls, t.OpenMessage)
	for _, call := range open {
		c.must(call.Ref.Message == t.OpenMessage, "call %v of task %s is open, its message is %d", call.Ref, t.ID, t.OpenMessage)
	}
}

// activityAfter gives the task's activity once a message was appended: its last call, if it has any.
func (c *checker) activityAfter(id TaskID, appended MessageAppended) string {
	i := slices.IndexFunc(c.messages[id], func(m Message) bool { return m.ID == appended.Message })
	if i < 0 || len(appended.Calls) == 0 {
		return ""
	}
	last := activities(c.messages[id][i].Blocks)
	return last[len(last)-1]
}

// transcript: the messages are a chain, and the results of a message's calls
// come right after it.
func (c *checker) transcript(t *Task) {
	messages := c.messages[t.ID]
	first := t.Base.First()
	c.must(t.NextOrdinal == len(messages)+first, "task %s has %d messages, the next is %d", t.ID, len(messages), t.NextOrdinal)
	before := Message{ID: c.head(t)}
	asked := false
	for i, m := range messages {
		c.must(m.Ordinal == first+i && m.Parent == before.ID, "message %d of task %s is not linked", m.Ordinal, t.ID)
		c.must(asked == (m.Role == RoleTool), "message %d of task %s has role %d after calls: %t", m.Ordinal, t.ID, m.Role, asked)
		asked = false
		for j, b := range m.Blocks {
			if _, ok := b.(ToolUse); ok {
				asked = true
				call, there := c.calls[CallKey{t.ID, CallRef{m.Ordinal, j}}]
				c.must(there, "block %d of message %d of task %s has no call", j, m.Ordinal, t.ID)
				c.must(call.State == CallClosed || m.Ordinal == t.OpenMessage, "call %v of task %s is open and left behind", call.Ref, t.ID)
			}
		}
		before = m
	}
	c.must(t.Head == before.ID, "task %s does not end with its last message", t.ID)
	c.must(asked == (t.OpenMessage > 0 && t.OpenMessage == before.Ordinal), "task %s ends with calls: %t, its open message is %d", t.ID, asked, t.OpenMessage)
}

// usage: the task's counters are those of its messages, run by run.
func (c *checker) usage(t *Task) {
	var total, current Usage
	calls, all, tools, runTools := 0, 0, 0, 0
	for _, m := range c.messages[t.ID] {
		if m.Run == 0 {
			continue // it was imported
		}
		total = total.Add(m.Usage)
		uses := len(openedBy(&m))
		tools += uses
		if m.Role == RoleAssistant && !t.isShell() {
			all++
		}
		if m.Run != t.Run {
			continue
		}
		current = current.Add(m.Usage)
		runTools += uses
		if m.Role == RoleAssistant && !t.isShell() {
			calls++
		}
	}
	c.must(t.Usage == total && t.RunUsage == current, "task %s counts usage %v and %v, its messages %v and %v",
		t.ID, t.Usage, t.RunUsage, total, current)
	c.must(t.ToolUses == tools && t.RunTools == runTools, "task %s counts %d and %d tool uses of %d and %d",
		t.ID, t.ToolUses, t.RunTools, tools, runTools)
	c.must(t.Iterations == calls, "task %s counts %d model calls of %d", t.ID, t.Iterations, calls)
	c.must(t.AllIterations == all, "task %s counts %d model calls in all of %d", t.ID, t.AllIterations, all)
	c.must(len(t.RecentActivities()) <= recentActivities, "task %s remembers too much: %q", t.ID, t.Recent)
}

func openedBy(m *Message) []ToolUse {
	var uses []ToolUse
	for _, b := range m.Blocks {
		if use, ok := b.(ToolUse); ok {
			uses = append(uses, use)
		}
	}
	return uses
}

// links: what the task counts of others is what they say.
func (c *checker) links(t *Task) {
	live, watchers := 0, 0
	for _, other := range c.tasks {
		if other.Background && other.Caller == t.ID && other.State.Active() {
			live++
		}
	}
	for row := range c.waits {
		if row.Target == (ChildRun{t.ID, t.Run}) {
			watchers++
		}
	}
	c.must(t.LiveBackground == live, "task %s counts %d live background children of %d", t.ID, t.LiveBackground, live)
	c.must(t.Watchers >= watchers, "task %s counts %d watchers of %d", t.ID, t.Watchers, watchers)
	inbox := c.inboxOf(t.ID)
	messages := 0
	for _, e := range inbox {
		if (e.News == ChildRun{}) {
			messages++
		}
	}
	c.must(t.Inbox == len(inbox), "task %s counts an inbox of %d of %d", t.ID, t.Inbox, len(inbox))
	c.must(messages <= c.session.Limits.Inbox, "%d messages wait for task %s, the cap is %d", messages, t.ID, c.session.Limits.Inbox)
}

// results: each closed call was resolved exactly once, and a waiting one waits
// for a run that goes on and that knows of it.
func (c *checker) results() {
	resolved := map[CallKey]int{}
	for _, e := range c.events {
		if r, ok := e.Kind.(CallResolved); ok {
			resolved[CallKey{e.Task, r.Ref}]++
			c.must(c.calls[CallKey{e.Task, r.Ref}].IsError == r.IsError, "event %d and call %v differ", e.Seq, r.Ref)
		}
	}
	for key, call := range c.calls {
		want := 0
		if call.State == CallClosed && c.message(key.Task, key.Ref.Message).Run > 0 {
			want = 1
		}
		c.must(resolved[key] == want, "call %v is in state %d and was resolved %d times", key, call.State, resolved[key])
		if call.ByOutcome {
			run, ended := c.runs[call.Child]
			c.must(ended && call.IsError == (run.State != StateCompleted), "call %v is closed by a run that ended: %t", key, ended)
		}
		if call.State != CallWaiting {
			continue
		}
		child := c.tasks[call.Child.Task]
		c.must(child.Run == call.Child.Run && child.State.Active(), "call %v waits for run %v, which has ended", key, call.Child)
		called := child.Caller == key.Task && child.Call == key.Ref && !child.Background
		row := WaitRow{Target: call.Child, Task: key.Task, Ref: key.Ref}
		c.must(called != (c.waits[row] > 0), "call %v waits for its child: %t, for another run: %t", key, called, c.waits[row] > 0)
	}
}

// leftovers: a wait or timer that is left over belongs to a call that waits.
func (c *checker) leftovers() {
	for row := range c.waits {
		call := c.calls[CallKey{row.Task, row.Ref}]
		c.must(call.State == CallWaiting && call.Child == row.Target, "wait %v is left over", row)
	}
	for key := range c.timers {
		if t := c.tasks[key.Task]; key.Ref == timeoutRef || key.Ref == deadlineRef {
			running, active := t.State == StateRunning && t.Timeout > 0, t.State.Active() && !t.Deadline.IsZero()
			c.must(key.Ref == timeoutRef && running || key.Ref == deadlineRef && active, "timer %v is left over", key)
			continue
		}
		call := c.calls[key]
		if call.State == CallAsking {
			c.must(c.timers[key].Due.Equal(c.approvals[call.Approval].Due), "the timer of approval %s is another's", call.Approval)
			continue
		}
		row := WaitRow{Target: call.Child, Task: key.Task, Ref: key.Ref}
		child := c.tasks[call.Child.Task]
		c.must(call.State == CallWaiting && (c.waits[row] > 0 || child.isAwaitedBy(&call)), "timer %v is left over", key)
	}
	for id, t := range c.tasks {
		_, timeout := c.timers[CallKey{id, timeoutRef}]
		_, deadline := c.timers[CallKey{id, deadlineRef}]
		c.must(timeout == (t.State == StateRunning && t.Timeout > 0), "task %s has a timeout of %s, is %s, timer: %t", id, t.Timeout, t.State, timeout)
		c.must(deadline == (t.State.Active() && !t.Deadline.IsZero()), "task %s has the deadline %s, is %s, timer: %t", id, t.Deadline, t.State, deadline)
	}
	for id := range c.ready {
		c.must(c.tasks[id].ID == id, "ready row of no task")
	}
	for id := range c.attempts {
		c.must(c.tasks[id].ID == id, "attempt of no task")
	}
}

// told: the end of a background run is told to the one who asked for it, once,
// unless both were cancelled together or a call of his has it as its result; nobody
// hears of another's.
func (c *checker) told() {
	news := map[ChildRun]map[TaskID]int{}
	add := func(run ChildRun, to TaskID) {
		if (run == ChildRun{}) {
			return
		}
		if news[run] == nil {
			news[run] = map[TaskID]int{}
		}
		news[run][to]++
	}
	for id, messages := range c.messages {
		for _, m := range messages {
			add(m.News, id)
		}
	}
	for _, e := range c.inbox {
		add(e.News, e.Task)
	}
	type reading struct {
		run ChildRun
		by  TaskID
	}
	read := map[reading]bool{}
	for key, call := range c.calls {
		if call.ByOutcome {
			read[reading{call.Child, key.Task}] = true
		}
	}
	for run, a := range c.asked {
		r, ended := c.runs[run]
		switch {
		case c.dropped[run]:
			c.must(len(news[run]) == 0, "run %v was told to %v, and taken away", run, news[run])
		case ended && (r.Reason == ReasonCancelledByParent || r.Reason == ReasonAbandoned || read[reading{run, a.by}]):
			// The caller may have fallen with it; then there is nobody to tell.
			c.must(len(news[run]) == 0 || len(news[run]) == 1 && news[run][a.by] == 1, "run %v was told to %v", run, news[run])
		case ended && a.background && !a.by.IsZero():
			c.must(len(news[run]) == 1 && news[run][a.by] == 1, "the end of run %v was told to %v, asked for by %s", run, news[run], a.by)
		default:
			c.must(len(news[run]) == 0, "run %v was told to %v", run, news[run])
		}
	}
}
