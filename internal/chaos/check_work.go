package chaos

import (
	"cmp"
	"slices"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// checkAttempts: each epoch was granted once, and every granted epoch is in the log.
func (c *checker) checkAttempts() {
	for _, l := range c.hist.order {
		for i := 1; i < len(l.deliveries); i++ {
			c.require(l.deliveries[i].epoch > l.deliveries[i-1].epoch, OneAttempt, l.id,
				"epoch %d was dispatched after epoch %d", l.deliveries[i].epoch, l.deliveries[i-1].epoch)
		}
	}
	type epoch struct {
		task  string
		epoch int64
	}
	nonces := map[epoch]uint64{}
	for _, r := range c.recordsOf(Granted) {
		at := epoch{r.Task, r.Epoch}
		nonce, again := nonces[at]
		c.require(!again || nonce == r.Nonce, OneAttempt, r.Task, "epoch %d was granted to nonces %x and %x", r.Epoch, nonce, r.Nonce)
		nonces[at] = r.Nonce
		d := c.taskHistory(r.Task).delivery(r.Epoch)
		c.require(d != nil && d.run == r.Run, OneAttempt, r.Task, "epoch %d of run %d was granted to %s and is not in the log", r.Epoch, r.Run, r.By)
	}
}

// checkReattached: no attempt continues over another stream if it asked for that after its end, or
// after another worker had got the run.
func (c *checker) checkReattached() {
	granted := c.recordsOf(Granted)
	for _, r := range c.recordsOf(Reattached) {
		for _, g := range granted {
			late := g.Task == r.Task && g.Epoch > r.Epoch && r.Began.After(g.At)
			c.require(!late, Fenced, r.Task, "epoch %d continues, for which it asked at %s, after %s had got epoch %d", r.Epoch, r.Began, g.By, g.Epoch)
		}
		d := c.taskHistory(r.Task).delivery(r.Epoch)
		c.require(d != nil, Fenced, r.Task, "epoch %d continues, which was never dispatched", r.Epoch)
		if d == nil || d.end == nil {
			continue
		}
		late := r.Began.Add(-maxClockSkew).After(d.end.GetTime().AsTime())
		c.require(!late, Fenced, r.Task, "epoch %d continues, for which it asked at %s, after its end in event %d", r.Epoch, r.Began, d.to)
	}
}

// checkAccepted: what a worker was acknowledged is stored as sent, once, and was accepted while
// the worker's attempt was the current one.
func (c *checker) checkAccepted() {
	type place struct {
		task    string
		ordinal int32
	}
	by := map[place]Record{}
	for _, r := range c.recordsOf(Appended, Summed, Closed, Spawned, ParkedAt, Ended) {
		l := c.taskHistory(r.Task)
		d := l.delivery(r.Epoch)
		if d == nil {
			c.require(false, Fenced, r.Task, "%s %d of epoch %d was accepted, which was never dispatched", r.Kind, r.Seq, r.Epoch)
			continue
		}
		switch r.Kind {
		case Appended, Summed:
			other, again := by[place{r.Task, r.Ordinal}]
			c.require(!again || other.Epoch == r.Epoch && other.Seq == r.Seq, Fenced, r.Task,
				"message %d was accepted from epochs %d and %d", r.Ordinal, other.Epoch, r.Epoch)
			by[place{r.Task, r.Ordinal}] = r
			c.checkMessage(l, d, r, c.message(r.Task, r.Ordinal))
		case Closed:
			c.checkClosed(l, d, r)
		case Spawned:
			c.checkSpawned(l, d, r)
		case ParkedAt:
			c.require(d.parkedOrMadeWay(), Fenced, r.Task, "epoch %d was told that it is parked; it ended with %v", r.Epoch, d.end)
			if r.Digest != "" {
				c.checkMessage(l, d, r, c.lastAssistantMessage(l, d))
			}
		case Ended:
			c.checkEnded(d, r)
		}
	}
}

// checkWitnessed: if nothing was broken, the witnesses have recorded each attempt and each
// message. The other rules cannot check what the witnesses did not record.
func (c *checker) checkWitnessed() {
	if !c.Calm {
		return
	}
	granted, said := map[int64]bool{}, map[string]int{}
	for _, l := range c.hist.order {
		clear(granted)
		for _, r := range c.recordsOf(Granted) {
			if r.Task == l.id {
				granted[r.Epoch] = true
			}
		}
		for _, d := range l.deliveries {
			c.require(granted[d.epoch] || l.isCommand, Witnessed, l.id, "epoch %d was dispatched, and no worker was seen to get it", d.epoch)
		}
	}
	for _, r := range c.recordsOf(Appended, ParkedAt, Ended) {
		if r.Digest != "" {
			said[r.Task]++
		}
	}
	for task := range c.Transcripts {
		stored := 0
		for _, m := range c.transcript(task) {
			if m.GetRole() == pb.Role_ROLE_ASSISTANT {
				stored++
			}
		}
		c.require(said[task] == stored, Witnessed, task, "%d messages are stored, and %d were seen to be said", stored, said[task])
	}
}

// checkMessage: a message is stored as the worker sent it, within its attempt.
func (c *checker) checkMessage(l *taskHistory, d *delivery, r Record, m *pb.Message) {
	if m == nil {
		c.require(false, Stored, r.Task, "message %d of epoch %d was acknowledged and is not stored", r.Ordinal, r.Epoch)
		return
	}
	c.require(messageDigest(m) == r.Digest, Stored, r.Task, "message %d of epoch %d is stored with another content", m.GetOrdinal(), r.Epoch)
	c.require(d.contains(l.messages[m.GetOrdinal()]), Fenced, r.Task,
		"message %d was accepted from epoch %d, and is not within its events %d to %d", m.GetOrdinal(), r.Epoch, d.from, d.to)
}

// lastAssistantMessage returns the last assistant message of a delivery.
func (c *checker) lastAssistantMessage(l *taskHistory, d *delivery) *pb.Message {
	var last *pb.Message
	for _, m := range c.Transcripts[l.id] {
		if m.GetRole() == pb.Role_ROLE_ASSISTANT && d.contains(l.messages[m.GetOrdinal()]) {
			last = m
		}
	}
	return last
}

func (c *checker) checkClosed(l *taskHistory, d *delivery, r Record) {
	closings := l.closed[callRef{r.Ordinal, r.Block}]
	if len(closings) == 0 {
		c.require(false, Stored, r.Task, "the result of call %d.%d was acknowledged and is not in the log", r.Ordinal, r.Block)
		return
	}
	c.require(d.contains(closings[0]), Fenced, r.Task,
		"call %d.%d was closed by epoch %d, and not within its events %d to %d", r.Ordinal, r.Block, r.Epoch, d.from, d.to)
	results := c.results(r.Task, r.Ordinal)
	if results == nil {
		return // other calls are still open, so the tool message does not exist yet
	}
	for _, stored := range results {
		if stored.GetBlock() == r.Block {
			c.require(resultDigest(stored) == r.Digest, Stored, r.Task, "call %d.%d is stored with another result", r.Ordinal, r.Block)
		}
	}
}

// results returns the results of the calls of a message, or nil if they are incomplete.
func (c *checker) results(task string, ordinal int32) []*pb.ToolResultBlock {
	m := c.message(task, ordinal+1)
	if m.GetRole() != pb.Role_ROLE_TOOL {
		return nil
	}
	var out []*pb.ToolResultBlock
	for _, b := range m.GetBlocks() {
		out = append(out, b.GetToolResult())
	}
	return out
}

func (c *checker) checkSpawned(l *taskHistory, d *delivery, r Record) {
	for _, block := range r.Blocks {
		call := callRef{r.Ordinal, block}
		var at *pb.Event
		for _, child := range c.childrenOf(l.id, call) {
			at = child
		}
		if closings := l.closed[call]; at == nil && len(closings) > 0 {
			at = cmp.Or(c.leftByCall(l, d), closings[0])
		}
		c.require(at != nil, Stored, r.Task, "the child of call %d.%d was acknowledged and did not start", r.Ordinal, block)
		c.require(at == nil || d.contains(at), Fenced, r.Task,
			"the child of call %d.%d was accepted from epoch %d, and is not within its events %d to %d", r.Ordinal, block, r.Epoch, d.from, d.to)
	}
}

// leftByCall returns the event of a message that a child was left during a delivery of its parent: a
// call that resumes a running task is a message to it. If there is none, the call was refused, or
// answered at once.
func (c *checker) leftByCall(parent *taskHistory, d *delivery) *pb.Event {
	for _, l := range c.hist.order {
		if i := slices.IndexFunc(l.queued, d.contains); i >= 0 && l.firstStart().GetParentId() == parent.id {
			return l.queued[i]
		}
	}
	return nil
}

// childrenOf returns the started events of the runs that a call asked for.
func (c *checker) childrenOf(parent string, call callRef) []*pb.Event {
	var out []*pb.Event
	for _, l := range c.hist.order {
		for _, e := range l.started {
			s := e.GetStarted()
			if s.GetParentId() == parent && s.GetCall() != nil && callRefOf(s.GetCall()) == call {
				out = append(out, e)
			}
		}
	}
	return out
}

func (c *checker) checkEnded(d *delivery, r Record) {
	end := d.end.GetResult()
	c.require(end != nil, Fenced, r.Task, "epoch %d was told that it has ended its run; it ended with %v", r.Epoch, d.end)
	if end == nil {
		return
	}
	c.require(end.GetState().String() == r.State, Stored, r.Task, "epoch %d ended %s, stored is %s", r.Epoch, r.State, end.GetState())
	if r.Digest == "" {
		return
	}
	for _, m := range c.Transcripts[r.Task] {
		if m.GetId() == end.GetMessageId() {
			c.require(messageDigest(m) == r.Digest, Stored, r.Task, "the answer of epoch %d is stored with another content", r.Epoch)
			return
		}
	}
	c.require(false, Stored, r.Task, "the answer of epoch %d was acknowledged and is not stored", r.Epoch)
}

// checkCalls: each call is closed once, and has one result once its message is answered.
func (c *checker) checkCalls() {
	for _, l := range c.hist.order {
		for _, call := range l.opened {
			n := len(l.closed[call])
			c.require(n <= 1, ClosedOnce, l.id, "call %d.%d was closed %d times", call.message, call.block, n)
			c.require(n == 1 || !terminal(l.state), ClosedOnce, l.id, "call %d.%d is open, and the run has ended", call.message, call.block)
			for _, child := range c.childrenOf(l.id, call) {
				s := c.taskHistory(child.GetTaskId())
				over := int(child.GetRun()) <= len(s.results)
				c.require(n == 1 || !over, ClosedOnce, l.id, "call %d.%d is open, and its child has ended", call.message, call.block)
			}
		}
		c.require(len(c.distinctCalls(l)) == len(l.opened), ClosedOnce, l.id, "a call was opened twice")
		for call := range l.closed {
			c.require(slices.Contains(l.opened, call), ClosedOnce, l.id, "call %d.%d was closed and never opened", call.message, call.block)
			c.checkAnswered(l, call)
		}
	}
}

func (c *checker) distinctCalls(l *taskHistory) map[callRef]bool {
	out := map[callRef]bool{}
	for _, call := range l.opened {
		out[call] = true
	}
	return out
}

// checkAnswered: if a message with calls has a successor, the successor has one result for each
// call.
func (c *checker) checkAnswered(l *taskHistory, call callRef) {
	if c.message(l.id, call.message+1) == nil {
		return
	}
	n := 0
	for _, r := range c.results(l.id, call.message) {
		if r.GetBlock() == call.block {
			n++
		}
	}
	c.require(n == 1, ClosedOnce, l.id, "call %d.%d has %d results", call.message, call.block, n)
}

// checkChildren: the end of each child reaches its parent once. It closes the call that waits
// for the child or, if the child ran in the background, arrives as a message.
func (c *checker) checkChildren() {
	notify := map[string]bool{}
	for _, r := range c.recordsOf(Launched) {
		notify[r.Task] = r.Notify
	}
	for _, l := range c.hist.order {
		for i, result := range l.results[:min(len(l.results), len(l.started))] {
			start := l.started[i].GetStarted()
			if start.GetParentId() == "" {
				continue
			}
			parent := c.taskHistory(start.GetParentId())
			told := parent.news[childRun{l.id, result.GetRun()}]
			c.require(len(told) <= 1, ToldOnce, l.id, "the end of run %d was told %d times", result.GetRun(), len(told))
			switch {
			case !start.GetBackground() && !l.backgrounded[result.GetRun()]:
				c.checkClosedBy(parent, l, start, result)
				c.require(len(told) == 0, ToldOnce, l.id, "run %d was awaited, and told as news", result.GetRun())
			case start.GetCall() != nil || notify[l.id]:
				due := c.Quiet && parent.lastResult().GetState() == pb.TaskState_TASK_STATE_COMPLETED &&
					result.GetResult().GetReason() != pb.Reason_REASON_CANCELLED_BY_PARENT && !c.isClosed() && !c.isSpent()
				c.require(len(told) == 1 || parent.closedByRun(l.id, result.GetRun()) || !due, ToldOnce, l.id, "the end of run %d was not told", result.GetRun())
			default:
				c.require(len(told) == 0, ToldOnce, l.id, "the end of run %d was told to nobody who asked", result.GetRun())
			}
			for _, e := range told {
				c.require(e.GetSeq() > result.GetSeq(), ToldOnce, l.id, "the end of run %d was told before it came", result.GetRun())
			}
		}
	}
}

// closedByRun reports whether the end of a run closed a call of the task.
func (l *taskHistory) closedByRun(task string, run int32) bool {
	for _, closings := range l.closed {
		for _, e := range closings {
			if child := e.GetCallClosed().GetChild(); child.GetTaskId() == task && child.GetRun() == run {
				return true
			}
		}
	}
	return false
}

// checkClosedBy: the call that waited for a run was closed by the end of that run, or by the
// end of the waiting run.
func (c *checker) checkClosedBy(parent, child *taskHistory, start *pb.TaskStarted, end *pb.Event) {
	if start.GetCall() == nil {
		return
	}
	closings := parent.closed[callRefOf(start.GetCall())]
	if len(closings) == 0 {
		return // checkCalls reports open calls
	}
	by := closings[0].GetCallClosed()
	if by.GetChild() == nil {
		c.require(by.GetIsError(), ToldOnce, child.id, "the call that waited for run %d was closed by nobody", end.GetRun())
		return
	}
	c.require(childOf(by.GetChild()) == childRun{child.id, end.GetRun()}, ToldOnce, child.id,
		"the call that waited for run %d was closed by run %d of %s", end.GetRun(), by.GetChild().GetRun(), by.GetChild().GetTaskId())
	c.require(closings[0].GetSeq() > end.GetSeq(), ToldOnce, child.id, "the call that waited for run %d was closed before its end", end.GetRun())
}

// taskCall is a call of a task of the session.
type taskCall struct {
	task string
	callRef
}

// effects counts how often each call had its effect.
func (c *checker) effects() map[taskCall]int {
	seen := map[taskCall]int{}
	for _, r := range c.recordsOf(Effect) {
		seen[taskCall{r.Task, callRef{r.Ordinal + 1, r.Block}}]++
	}
	return seen
}

// checkEffects: a call has its effect at most once, and exactly once if its result says so.
func (c *checker) checkEffects() {
	seen := c.effects()
	for at, n := range seen {
		c.require(n == 1, NoRepeat, at.task, "call %d.%d had its effect %d times", at.message, at.block, n)
	}
	for _, t := range c.Tasks {
		for _, m := range c.Transcripts[t.GetId()] {
			for i, b := range m.GetBlocks() {
				if b.GetToolUse().GetName() != noteName {
					continue
				}
				for _, r := range c.results(t.GetId(), m.GetOrdinal()) {
					did := seen[taskCall{t.GetId(), callRef{m.GetOrdinal(), int32(i)}}]
					c.require(int(r.GetBlock()) != i || r.GetIsError() || did == 1, NoRepeat, t.GetId(),
						"call %d.%d says that it had its effect, which it had %d times", m.GetOrdinal(), i, did)
				}
			}
		}
	}
}
