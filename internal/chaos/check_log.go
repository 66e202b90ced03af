package chaos

import (
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// checkLog: the sequence numbers have no gap.
func (c *checker) checkLog() {
	for i, e := range c.Events {
		c.require(e.GetSeq() == int64(i+1), NoGap, e.GetTaskId(), "event %d is number %d", i+1, e.GetSeq())
	}
	c.require(int64(len(c.Events)) == c.Session.GetLastSeq(), NoGap, "",
		"there are %d events, the session is at %d", len(c.Events), c.Session.GetLastSeq())
}

// checkRuns: each run has one start, before its other events, and one result, after them.
func (c *checker) checkRuns() {
	type run struct {
		task string
		run  int32
	}
	began, over := map[run]bool{}, map[run]bool{}
	for _, e := range c.Events {
		if e.GetSessionOpened() != nil || e.GetRun() == 0 {
			continue
		}
		r := run{e.GetTaskId(), e.GetRun()}
		start, end := e.GetStarted() != nil, e.GetResult() != nil
		c.require(began[r] != start, OneResult, r.task, "run %d: event %d, started before: %t", r.run, e.GetSeq(), began[r])
		c.require(!over[r], OneResult, r.task, "run %d: event %d comes after its result", r.run, e.GetSeq())
		began[r], over[r] = began[r] || start, over[r] || end
	}
	for _, l := range c.hist.order {
		for n := int32(1); n < int32(len(l.started)); n++ {
			c.require(over[run{l.id, n}], OneResult, l.id, "run %d has no result, and another one has started", n)
		}
	}
}

// mostLost is how many workers in a row are lost with a run that is given up.
const mostLost = 3

// checkPoisoned: no run is given up sooner. What workers are told to store between their answers is
// not counted as progress here, so this may miss a run that was given up a little too soon.
func (c *checker) checkPoisoned() {
	for _, l := range c.hist.order {
		for _, lost := range l.poisoned {
			c.require(lost >= mostLost, LastResort, l.id, "a run was given up, and %d workers in a row were lost with it", lost)
		}
	}
}

// checkEnds: when the session is quiet, everything has ended.
func (c *checker) checkEnds() {
	if !c.Quiet {
		return
	}
	for _, t := range c.Tasks {
		c.require(terminal(t.GetState()) || t.GetState() == pb.TaskState_TASK_STATE_NEW, Terminal, t.GetId(),
			"run %d is %s", t.GetRun(), t.GetState())
	}
	for _, l := range c.hist.order {
		c.require(len(l.results) == len(l.started), Terminal, l.id, "%d runs started, %d have a result", len(l.started), len(l.results))
	}
}

func terminal(s pb.TaskState) bool {
	switch s {
	case pb.TaskState_TASK_STATE_COMPLETED, pb.TaskState_TASK_STATE_FAILED, pb.TaskState_TASK_STATE_CANCELLED:
		return true
	}
	return false
}

// checkStored: tasks and transcripts are those in the log.
func (c *checker) checkStored() {
	known := map[string]bool{}
	for _, t := range c.Tasks {
		known[t.GetId()] = true
		l := c.taskHistory(t.GetId())
		c.require(l.state == t.GetState(), LogTells, t.GetId(), "it is %s, the log says %s", t.GetState(), l.state)
		c.require(int(t.GetRun()) == len(l.started), LogTells, t.GetId(), "it is in run %d, the log has %d", t.GetRun(), len(l.started))
		transcript := c.transcript(t.GetId())
		c.require(len(transcript) == len(l.messages), LogTells, t.GetId(),
			"it has %d messages, the log has %d", len(transcript), len(l.messages))
		for i, m := range transcript {
			ordinal := l.inherited + l.imported + int32(i+1)
			e := l.messages[ordinal].GetMessage()
			c.require(m.GetOrdinal() == ordinal && e.GetMessageId() == m.GetId() && e.GetRole() == m.GetRole(), LogTells, t.GetId(),
				"message %d is number %d, %s, %s; the log says %s, %s", i+1, m.GetOrdinal(), m.GetId(), m.GetRole(), e.GetMessageId(), e.GetRole())
		}
	}
	for _, l := range c.hist.order {
		c.require(known[l.id], LogTells, l.id, "the log tells of a task that is not stored")
	}
}

// checkWatched: each watcher saw the log from its cursor on, and was told that nothing is left to do
// only when all runs had ended.
func (c *checker) checkWatched() {
	for _, w := range c.recordsOf(Watched) {
		for i, seen := range w.Digests {
			seq := w.After + int64(i) + 1
			if seq > int64(len(c.Events)) {
				c.require(false, SameLog, "", "a watcher saw event %d, the log has %d", seq, len(c.Events))
				break
			}
			e := c.Events[seq-1]
			c.require(DigestOf(e) == seen, SameLog, e.GetTaskId(), "a watcher saw another event %d", seq)
		}
		last := w.After + int64(len(w.Digests))
		live := c.runsAt(last)
		c.require(!w.Idle || live == 0, Terminal, "", "a watcher was told at event %d that nothing is left to do, and %d runs had not ended", last, live)
	}
}

// runsAt returns how many runs had started and not ended as of an event.
func (c *checker) runsAt(seq int64) int {
	live := 0
	for _, e := range c.Events[:min(seq, int64(len(c.Events)))] {
		switch {
		case e.GetStarted() != nil:
			live++
		case e.GetResult() != nil:
			live--
		}
	}
	return live
}

// checkUsage: each token is counted once.
func (c *checker) checkUsage() {
	var all tokens
	var dearest, made int64 // of all calls
	for _, t := range c.Tasks {
		var spoken, ended tokens
		for _, m := range c.transcript(t.GetId()) {
			spoken.add(m.GetUsage())
			if m.GetSumsUpTo() > 0 || m.GetRole() == pb.Role_ROLE_ASSISTANT && t.GetKind() != pb.TaskKind_TASK_KIND_SHELL {
				made++
			}
			call := tokensOf(m.GetUsage())
			dearest = max(dearest, call.sum())
		}
		for _, r := range c.taskHistory(t.GetId()).results {
			ended.add(r.GetResult().GetUsage())
		}
		all.add(t.GetUsage())
		c.require(spoken == tokensOf(t.GetUsage()), UsageAdds, t.GetId(), "it counts %v, its messages say %v", t.GetUsage(), spoken)
		c.require(!terminal(t.GetState()) || spoken == ended, UsageAdds, t.GetId(), "its results say %v, its messages %v", ended, spoken)
	}
	c.require(all == tokensOf(c.Session.GetUsage()), UsageAdds, "", "the session counts %v, its tasks %v", c.Session.GetUsage(), all)
	c.require(made == c.Session.GetModelCalls(), UsageAdds, "", "the session counts %d calls of models, its messages say %d", c.Session.GetModelCalls(), made)
	budget := c.Session.GetBudget().GetTokens()
	c.require(budget == 0 || all.sum() < budget+dearest, BudgetKept, "", "%d tokens are used, the budget is %d and a call took %d at most", all.sum(), budget, dearest)
}

// isSpent reports whether the session has used its budget: nothing that arrives starts a run then.
func (c *checker) isSpent() bool {
	budget, used := c.Session.GetBudget().GetTokens(), tokensOf(c.Session.GetUsage())
	return budget > 0 && used.sum() >= budget
}

// tokens is usage in comparable form.
type tokens struct{ input, output, read, written, cost, priced int64 }

func tokensOf(u *pb.Usage) tokens {
	return tokens{u.GetInputTokens(), u.GetOutputTokens(), u.GetCacheReadTokens(), u.GetCacheWriteTokens(), u.GetCostMicros(), u.GetPricedTokens()}
}

func (t *tokens) sum() int64 { return t.input + t.output + t.read + t.written }

func (t *tokens) add(u *pb.Usage) {
	t.input += u.GetInputTokens()
	t.output += u.GetOutputTokens()
	t.read += u.GetCacheReadTokens()
	t.written += u.GetCacheWriteTokens()
	t.cost += u.GetCostMicros()
	t.priced += u.GetPricedTokens()
}

// checkCaps: the session never exceeded its caps.
func (c *checker) checkCaps() {
	total, running := 1, 0 // the root exists from the start
	children := map[string]int{}
	at := map[string]bool{}
	begun := map[string]bool{}
	shells := map[string]bool{} // commands do not count as running, and the depth cap does not apply to them
	for _, e := range c.Events {
		id := e.GetTaskId()
		switch k := e.GetKind().(type) {
		case *pb.Event_Started:
			if begun[id] || k.Started.GetParentId() == "" {
				break
			}
			begun[id] = true
			total++
			children[k.Started.GetParentId()]++
			shells[id] = k.Started.GetKind() == pb.TaskKind_TASK_KIND_SHELL
			c.require(shells[id] || int(k.Started.GetDepth()) <= c.Limits.Depth, CapsHold, id, "event %d: depth %d", e.GetSeq(), k.Started.GetDepth())
			c.require(children[k.Started.GetParentId()] <= c.Limits.Width, CapsHold, id, "event %d: child %d of %s", e.GetSeq(), children[k.Started.GetParentId()], k.Started.GetParentId())
			c.require(total <= c.Limits.Total, CapsHold, id, "event %d: task %d", e.GetSeq(), total)
		case *pb.Event_Dispatched:
			if shells[id] {
				break
			}
			if !at[id] {
				running++
			}
			at[id] = true
			c.require(running <= c.Limits.Running, CapsHold, id, "event %d: %d run", e.GetSeq(), running)
		case *pb.Event_Parked, *pb.Event_Result, *pb.Event_Ready:
			if at[id] {
				running--
			}
			at[id] = false
		}
	}
}
