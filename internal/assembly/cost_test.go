package assembly_test

import (
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// priced is a usage that can be added to.
type priced struct{ tokens, priced, micros int64 }

func (p *priced) add(u *pb.Usage) {
	p.tokens += u.GetInputTokens() + u.GetOutputTokens() + u.GetCacheReadTokens() + u.GetCacheWriteTokens()
	p.priced += u.GetPricedTokens()
	p.micros += u.GetCostMicros()
}

// bill adds up what a session's answers have cost, checks that its runs, its tasks and
// the session itself say the same, and gives it.
func (c *client) bill(session string) priced {
	c.t.Helper()
	events, _ := c.idle(session)
	var all, runs, tasks, whole priced
	for _, e := range events {
		all.add(e.GetMessage().GetUsage())
		runs.add(e.GetResult().GetUsage())
	}
	for _, task := range c.tasks(session) {
		var said, counted priced
		for _, m := range c.transcript(session, task.GetId()) {
			said.add(m.GetUsage())
		}
		counted.add(task.GetUsage())
		if said != counted {
			c.t.Errorf("task %s counts %+v, its messages say %+v", task.GetDescription(), counted, said)
		}
		tasks.add(task.GetUsage())
	}
	tree, err := c.GetTree(c.ctx(), &pb.GetTreeRequest{SessionId: session})
	if err != nil {
		c.t.Fatal(err)
	}
	whole.add(tree.GetSession().GetUsage())
	if all != runs || all != tasks || all != whole {
		c.t.Errorf("the answers say %+v, the runs %+v, the tasks %+v, the session %+v", all, runs, tasks, whole)
	}
	return all
}

// TestWhatATreeCosts: the prices of when an answer is recorded count, once, also when
// everything is killed and runs are delivered again; a model without a price costs
// nobody knows what, which is not nothing.
func TestWhatATreeCosts(t *testing.T) {
	t.Parallel()
	onBoth(t, "model: oak-1\n"+slow, func(d *deployment) {
		d.write("prices.yaml", "prices:\n- {name: 'oak-*', input: 3, output: 5, cache_read: 3, cache_write: 3}\n")
		d.orchestratorFlags = []string{"--prices", d.in("prices.yaml")}
	}, func(t *testing.T, d *deployment) {
		c := d.client()
		created, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "go"}})
		if err != nil {
			t.Fatal(err)
		}
		session := created.GetSession().GetId()
		results := 0
		c.events(session, func(e *pb.Event) bool {
			if e.GetResult() != nil {
				results++
			}
			return results == 10
		})
		c = d.killAll()
		first := c.bill(session)
		var usage priced
		for _, task := range c.tasks(session) {
			u := task.GetUsage()
			usage.micros += 3*(u.GetInputTokens()+u.GetCacheReadTokens()+u.GetCacheWriteTokens()) + 5*u.GetOutputTokens()
		}
		if first.tokens == 0 || first.priced != first.tokens || first.micros != usage.micros {
			t.Errorf("it has cost %+v, want %d", first, usage.micros)
		}
		c.sound()

		d.orchestratorFlags = nil
		c = d.killAll()
		if again := c.bill(session); again != first {
			t.Errorf("it has cost %+v, and %+v now that there are no prices", first, again)
		}
		second := c.create("go").GetId()
		if unknown := c.bill(second); unknown.tokens == 0 || unknown.priced != 0 || unknown.micros != 0 {
			t.Errorf("without a price it has cost %+v", unknown)
		}
		got, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: second})
		if err != nil || got.GetSession().GetUsage().CostMicros != nil {
			t.Errorf("without a price the session says %v, %v", got.GetSession().GetUsage(), err)
		}
		c.sound()
	})
}
