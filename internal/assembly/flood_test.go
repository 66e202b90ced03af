package assembly_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

const flooded = `
steps:
  - when: {depth: 0, prompt: loud, turn: 1}
    calls: [{tool: task, for_each: numbers 1000, input: {description: c, prompt: 'part {{.Item}}', subagent_type: explore}}]
  - when: {depth: 0, prompt: flood, turn: 1}
    calls: [{tool: task, for_each: numbers 10, input: {description: w, prompt: 'wave {{.Item}}', subagent_type: general-purpose}}]
  - when: {depth: 1, prompt: '^wave', turn: 1}
    calls: [{tool: task, for_each: numbers 1000, input: {description: c, prompt: 'part {{.Item}}', subagent_type: explore}}]
  - when: {depth: 0}
    text: done
  - {delay: 100ms, text: done}
`

// visit is when the run of a small session was asked for, when its client knew that it
// stands, and when a worker took it.
type visit struct{ asked, stands, taken time.Time }

func (v visit) wait() time.Duration { return v.taken.Sub(v.asked) }

// visit opens a session of one run. What it gives waits for the session's end.
func (c *client) visit() func() visit {
	c.t.Helper()
	id := c.create("quiet").GetId()
	v := visit{stands: time.Now()}
	return func() visit {
		events, _ := c.idle(id)
		for _, e := range events {
			switch {
			case e.GetStarted() != nil:
				v.asked = e.GetTime().AsTime()
			case e.GetDispatched() != nil:
				v.taken = e.GetTime().AsTime()
			}
		}
		return v
	}
}

func p95(all []visit) time.Duration {
	waits := make([]time.Duration, len(all))
	for i, v := range all {
		waits[i] = v.wait()
	}
	slices.Sort(waits)
	return waits[len(waits)*95/100]
}

// TestAFloodHoldsNobodyUp has small sessions come while a large one has a thousand runs
// waiting, all of which may run at once: each gets one of the next slots.
func TestAFloodHoldsNobodyUp(t *testing.T) { // by itself: it is wide
	message, parts, visits := "loud", 1000, 20
	if os.Getenv("COPPICE_FAULTS") == "full" {
		message, parts, visits = "flood", 10_000, 200
	}
	const slots = 16
	const most = (6 + 2) * slots // six for each slot may be announced; two are on the way to it
	limits := tree.DefaultLimits()
	limits.Running = 2 * parts
	c := setup(t, flooded, func(d *assembly.Dev) { d.Slots, d.Limits = slots, &limits })
	var idle, busy []visit
	for range visits {
		idle = append(idle, c.visit()())
	}
	loud := c.create(message).GetId()
	started := 0
	c.events(loud, func(e *pb.Event) bool {
		if e.GetStarted() != nil {
			started++
		}
		return started > parts
	})
	var opened []func() visit
	for range visits {
		opened = append(opened, c.visit())
	}
	for _, ended := range opened {
		busy = append(busy, ended())
	}
	left := 0
	for _, task := range c.tasks(loud) {
		if task.GetState() == pb.TaskState_TASK_STATE_PENDING {
			left++
		}
	}
	c.cancel(loud, "")
	events, _ := c.idle(loud)
	for _, v := range busy {
		before := 0
		for _, e := range events {
			if at := e.GetTime().AsTime(); e.GetDispatched() != nil && at.After(v.stands) && at.Before(v.taken) {
				before++
			}
		}
		if before > most {
			t.Errorf("%d runs of the flood went before a small session, want %d at most", before, most)
		}
	}
	t.Logf("p95 of the wait: %s while idle, %s in the flood of %d, of which %d still waited after the last visit", p95(idle), p95(busy), parts, left)
	if left == 0 {
		t.Error("nothing of the flood waited any more: nobody could be held up")
	}
}
