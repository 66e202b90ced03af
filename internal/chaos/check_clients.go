package chaos

import (
	"strings"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// checkClients: what clients were acknowledged exists, once.
func (c *checker) checkClients() {
	for _, r := range c.recordsOf(Launched) {
		first := c.taskHistory(r.Task).firstStart()
		c.require(first != nil, Acknowledged, r.Task, "task %s was acknowledged at %s and never started", r.Key, r.At)
		c.require(first == nil || first.GetDescription() == r.Key, Acknowledged, r.Task, "it is %q, %q was asked for", first.GetDescription(), r.Key)
		same := 0
		for _, l := range c.hist.order {
			if l.firstStart().GetDescription() == r.Key {
				same++
			}
		}
		c.require(same <= 1, KeysHold, r.Task, "%d tasks were started for %s", same, r.Key)
	}
	for _, r := range c.recordsOf(Imported) {
		begins, stored := c.taskHistory(r.Task).imported, len(c.Transcripts[r.Task])
		c.require(begins == r.Ordinal && stored >= int(begins), Acknowledged, r.Task,
			"%d messages were imported with %s, the log has %d, %d are stored", r.Ordinal, r.Key, begins, stored)
	}
	for _, r := range c.recordsOf(MessageSent) {
		heard := 0
		for _, m := range c.Transcripts[r.Task] {
			if m.GetRole() == pb.Role_ROLE_USER && textOf(m) == r.Key {
				heard++
			}
		}
		waiting := 0
		for _, entry := range c.Inboxes[r.Task] {
			if entry.GetText() == r.Key {
				waiting++
			}
		}
		c.require(heard+waiting <= 1, KeysHold, r.Task, "message %q was heard %d times, and waits %d times", r.Key, heard, waiting)
		c.require(heard+waiting > 0, Acknowledged, r.Task, "message %q was acknowledged at %s, was not heard, and does not wait", r.Key, r.At)
		c.require(heard > 0 || c.mayWait(r.Task), Acknowledged, r.Task, "message %q was acknowledged at %s and not heard", r.Key, r.At)
	}
}

// mayWait reports whether a message may wait for a task: while it works, and once it has ended, if
// the session is closed, or until someone resumes a sub-agent.
func (c *checker) mayWait(task string) bool {
	return !c.Quiet || c.isClosed() || c.taskHistory(task).firstStart().GetParentId() != ""
}

func textOf(m *pb.Message) string {
	var text strings.Builder
	for _, b := range m.GetBlocks() {
		text.WriteString(b.GetText().GetText())
	}
	return text.String()
}

// maxClockSkew is how far an event's time may be behind. A replica learns the time of the
// database from its answers, and the first answer may have been delayed.
const maxClockSkew = 2 * time.Second

// isClosed reports whether a client has closed the session.
func (c *checker) isClosed() bool { return len(c.recordsOf(Abandoned)) > 0 }

// checkCancels: what ran below a cancelled task when the cancel was requested has ended when it
// is acknowledged, and is not dispatched again. For a closed session this holds for all tasks.
func (c *checker) checkCancels() {
	for _, r := range c.recordsOf(Cancelled, Abandoned) {
		top := r.Task
		if top == "" {
			top = c.root()
		}
		for _, l := range c.hist.order {
			if r.Kind == Cancelled && !c.isBelow(l, top) {
				continue
			}
			for i, start := range l.started {
				if start.GetSeq() > r.After && !start.GetTime().AsTime().Before(r.Began.Add(-maxClockSkew)) {
					continue
				}
				ended := i < len(l.results) && !l.results[i].GetTime().AsTime().After(r.At)
				c.require(ended, CancelHolds, l.id, "run %d had not ended when the cancel of %s was acknowledged at %s", i+1, top, r.At)
				for _, d := range l.deliveries {
					late := d.run == start.GetRun() && d.began.GetTime().AsTime().After(r.At)
					c.require(!late, CancelHolds, l.id, "epoch %d of run %d was dispatched after the cancel of %s was acknowledged at %s", d.epoch, d.run, top, r.At)
				}
			}
		}
	}
}

// checkAbandoned: a close that was acknowledged is in the log, and nothing starts after it.
func (c *checker) checkAbandoned() {
	closed := c.hist.closed
	c.require(closed > 0 || !c.isClosed(), Acknowledged, "", "the session was acknowledged as closed, and is open")
	for _, e := range c.Events {
		begins := e.GetStarted() != nil || e.GetDispatched() != nil
		c.require(closed == 0 || e.GetSeq() < closed || !begins, CancelHolds, e.GetTaskId(),
			"event %d begins something in a session that event %d has closed", e.GetSeq(), closed)
	}
}

// isBelow reports whether a task is top or below it.
func (c *checker) isBelow(l *taskHistory, top string) bool {
	for {
		if l.id == top {
			return true
		}
		parent := c.hist.tasks[l.firstStart().GetParentId()]
		if parent == nil {
			return false
		}
		l = parent
	}
}

// checkTrajectory: if only workers, orchestrators, Redis or the database were broken, the
// transcripts equal those of an undisturbed session.
func (c *checker) checkTrajectory() {
	if c.Undisturbed == nil {
		return
	}
	mine := trajectoryOf(c.Evidence, c.hist)
	for _, l := range c.hist.order {
		want, known := c.Undisturbed.Tasks[l.path]
		if !known || !c.isUndisturbed(mine, l) {
			continue
		}
		got := mine.Tasks[l.path]
		for i := range max(len(got.Transcript), len(want.Transcript)) {
			if i >= len(got.Transcript) || i >= len(want.Transcript) || got.Transcript[i] != want.Transcript[i] {
				c.require(false, SameTrajectory, l.id, "%s: message %d differs:\n got %q\nwant %q", l.path, i+1, lineAt(got.Transcript, i), lineAt(want.Transcript, i))
				break
			}
		}
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "none"
}

// isUndisturbed reports whether a task and all tasks below it can be compared with the
// undisturbed session: they ended in the same states for the same reasons, and no client spoke to
// them or cancelled them.
func (c *checker) isUndisturbed(mine *Trajectory, top *taskHistory) bool {
	for path, want := range c.Undisturbed.Tasks {
		if path != top.path && !strings.HasPrefix(path, top.path+"/") {
			continue
		}
		if !want.Deterministic || !mine.Tasks[path].Deterministic {
			return false
		}
		if got := mine.Tasks[path]; got.State != want.State || got.Reason != want.Reason {
			return false
		}
	}
	return true
}
