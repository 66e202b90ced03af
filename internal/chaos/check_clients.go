package chaos

import (
	"strings"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// clients: what they were told of is there, once.
func (c *inquiry) clients() {
	for _, r := range c.of(Launched) {
		first := c.life(r.Task).first()
		c.must(first != nil, Acknowledged, r.Task, "task %s was acknowledged at %s and never started", r.Key, r.At)
		c.must(first == nil || first.GetDescription() == r.Key, Acknowledged, r.Task, "it is %q, %q was asked for", first.GetDescription(), r.Key)
		same := 0
		for _, l := range c.past.order {
			if l.first().GetDescription() == r.Key {
				same++
			}
		}
		c.must(same <= 1, KeysHold, r.Task, "%d tasks were started for %s", same, r.Key)
	}
	for _, r := range c.of(Said) {
		heard := 0
		for _, m := range c.Transcripts[r.Task] {
			if m.GetRole() == pb.Role_ROLE_USER && textOf(m) == r.Key {
				heard++
			}
		}
		c.must(heard <= 1, KeysHold, r.Task, "message %q was heard %d times", r.Key, heard)
		waits := !c.Quiet && c.life(r.Task).queued > 0
		c.must(heard > 0 || waits, Acknowledged, r.Task, "message %q was acknowledged at %s and not heard", r.Key, r.At)
	}
}

func textOf(m *pb.Message) string {
	var text strings.Builder
	for _, b := range m.GetBlocks() {
		text.WriteString(b.GetText().GetText())
	}
	return text.String()
}

// behind is how far an event's time may be behind, at most: a replica knows the time of the
// database by its answers, and the first one may have been long on its way.
const behind = 2 * time.Second

// cancels: what ran below one when it was asked for has ended when it is
// acknowledged, and no worker gets it any more.
func (c *inquiry) cancels() {
	for _, r := range c.of(Cancelled) {
		top := r.Task
		if top == "" {
			top = c.root()
		}
		for _, l := range c.past.order {
			if !c.isBelow(l, top) {
				continue
			}
			for i, start := range l.started {
				if start.GetSeq() > r.After && !start.GetTime().AsTime().Before(r.Began.Add(-behind)) {
					continue
				}
				ended := i < len(l.results) && !l.results[i].GetTime().AsTime().After(r.At)
				c.must(ended, CancelHolds, l.id, "run %d had not ended when the cancel of %s was acknowledged at %s", i+1, top, r.At)
				for _, d := range l.deliveries {
					late := d.run == start.GetRun() && d.began.GetTime().AsTime().After(r.At)
					c.must(!late, CancelHolds, l.id, "epoch %d of run %d was dispatched after the cancel of %s was acknowledged at %s", d.epoch, d.run, top, r.At)
				}
			}
		}
	}
}

// isBelow reports whether a task is another or below it.
func (c *inquiry) isBelow(l *life, top string) bool {
	for {
		if l.id == top {
			return true
		}
		parent := c.past.tasks[l.first().GetParentId()]
		if parent == nil {
			return false
		}
		l = parent
	}
}

// course: where nothing but workers, orchestrators, Redis or the database was
// broken, everything went as it goes when nothing is.
func (c *inquiry) course() {
	if c.Undisturbed == nil {
		return
	}
	mine := courseOf(c.Evidence, c.past)
	for _, l := range c.past.order {
		want, known := c.Undisturbed.Tasks[l.path]
		if !known || !c.untouched(mine, l) {
			continue
		}
		got := mine.Tasks[l.path]
		for i := range max(len(got.Transcript), len(want.Transcript)) {
			if i >= len(got.Transcript) || i >= len(want.Transcript) || got.Transcript[i] != want.Transcript[i] {
				c.must(false, SameCourse, l.id, "%s: message %d differs:\n got %q\nwant %q", l.path, i+1, at(got.Transcript, i), at(want.Transcript, i))
				break
			}
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "none"
}

// untouched reports whether a task and all below it have gone as they do when
// nothing is broken, and have ended so: nobody spoke to them or cancelled them,
// and they did not lose worker after worker.
func (c *inquiry) untouched(mine *Course, top *life) bool {
	for path, want := range c.Undisturbed.Tasks {
		if path != top.path && !strings.HasPrefix(path, top.path+"/") {
			continue
		}
		same := false
		if !want.Determined || !mine.Tasks[path].Determined {
			return false
		}
		for _, l := range c.past.order {
			same = same || l.path == path && l.state == want.State && l.last().GetReason() != pb.Reason_REASON_POISONED
		}
		if !same {
			return false
		}
	}
	return true
}
