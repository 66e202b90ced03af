package assembly_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

const fanOnce = `
steps:
  - {when: {agent: general-purpose, last: '^fan'}, calls: [{tool: task, for_each: numbers 20, input: {description: c, prompt: work, subagent_type: explore}}]}
  - {when: {agent: explore, turn: 1}, calls: [{tool: ls, input: {}}]}
  - {text: done}
`

// TestABudgetEndsATree: after the call that spends it nobody calls a model, however many of
// the tree wait; all of it ends and says why, and with another budget it goes on.
func TestABudgetEndsATree(t *testing.T) {
	t.Parallel()
	onBoth(t, fanOnce, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		opened, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
			Message: &pb.UserMessage{Text: "fan"}, Budget: &pb.Budget{Tokens: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		session := opened.GetSession().GetId()
		root := c.wait(session, "")
		if root.GetState() != pb.TaskState_TASK_STATE_FAILED || root.GetReason() != pb.Reason_REASON_BUDGET_EXHAUSTED ||
			!strings.Contains(root.GetDetail(), "its budget is 1") {
			t.Errorf("the root ended %s %s: %s", root.GetState(), root.GetReason(), root.GetDetail())
		}
		tasks := c.tasks(session)
		if len(tasks) != 21 {
			t.Errorf("there are %d tasks", len(tasks))
		}
		for _, task := range tasks[1:] {
			if task.GetReason() != pb.Reason_REASON_BUDGET_EXHAUSTED || task.GetIterations() != 0 || task.GetUsage() != nil {
				t.Errorf("a child ended %s %s after %d model calls, %v", task.GetState(), task.GetReason(), task.GetIterations(), task.GetUsage())
			}
		}
		c.sound()

		for _, b := range []*pb.Budget{{Tokens: -1}, {CostMicros: -1}, {ModelCalls: -1}} {
			if _, err := c.UpdateSession(c.ctx(), &pb.UpdateSessionRequest{SessionId: session, Budget: b}); status.Code(err) != codes.InvalidArgument {
				t.Errorf("a budget of %v: %v", b, err)
			}
		}
		raised, err := c.UpdateSession(c.ctx(), &pb.UpdateSessionRequest{SessionId: session, Budget: &pb.Budget{Tokens: 1_000_000}})
		if err != nil || raised.GetSession().GetBudget().GetTokens() != 1_000_000 || raised.GetSession().GetTitle() != "fan" {
			t.Fatalf("with another budget the session is %v, %v", raised, err)
		}
		c.hears(session, "fan again", "")
		if root := c.wait(session, ""); root.GetResult() != "done" {
			t.Errorf("the root ended %s %s: %s", root.GetState(), root.GetReason(), root.GetDetail())
		}
		for _, task := range c.tasks(session)[21:] {
			if task.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
				t.Errorf("a child ended %s %s", task.GetState(), task.GetReason())
			}
		}
		c.sound()
	})
}

const fanDeep = `
steps:
  - {when: {agent: general-purpose, last: '^fan'}, calls: [{tool: task, for_each: numbers 20, input: {description: c, prompt: work, subagent_type: explore}}]}
  - {when: {agent: explore, turn: 3}, text: done}
  - {when: {agent: explore}, calls: [{tool: ls, input: {}}]}
  - {text: done}
`

// TestABudgetIsReserved: twenty sub-agents at once use no more beyond the budget than calls
// take beyond what calls before them took. Without a bound, each of them would have made one.
func TestABudgetIsReserved(t *testing.T) {
	t.Parallel()
	onBoth(t, fanDeep, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		open := func(budget *pb.Budget) (used, dearest int64, session *pb.Session) {
			opened, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
				Message: &pb.UserMessage{Text: "fan"}, Budget: budget,
			})
			if err != nil {
				t.Fatal(err)
			}
			id := opened.GetSession().GetId()
			events, _ := c.idle(id)
			for _, e := range events {
				call := tokens(e.GetMessage().GetUsage())
				used, dearest = used+call, max(dearest, call)
			}
			got, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: id})
			if err != nil || tokens(got.GetSession().GetUsage()) != used {
				t.Fatalf("its answers took %d tokens: %v, %v", used, got, err)
			}
			c.sound()
			return used, dearest, got.GetSession()
		}
		needed, dearest, session := open(nil)
		if session.GetReserved() != nil {
			t.Errorf("%v is reserved without a budget", session.GetReserved())
		}
		for share := int64(1); share < 4; share++ {
			budget := needed * share / 4
			used, _, session := open(&pb.Budget{Tokens: budget})
			t.Logf("%d of %d tokens were used, %d would have been; a call takes %d at most", used, budget, needed, dearest)
			if used < budget || used >= budget+2*dearest {
				t.Errorf("%d of %d tokens were used, of which a call takes %d at most", used, budget, dearest)
			}
			if session.GetReserved() != nil {
				t.Errorf("all is over, and %v is reserved", session.GetReserved())
			}
		}
	})
}

// TestABudgetOfModelCallsIsKept: twenty sub-agents at once make as many calls as their tree may
// make, if it needs them, and none more.
func TestABudgetOfModelCallsIsKept(t *testing.T) {
	t.Parallel()
	onBoth(t, fanDeep, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		const needed = 2 + 20*3
		for _, most := range []int64{1, 30, needed - 1, needed, 0} {
			opened, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
				Message: &pb.UserMessage{Text: "fan"}, Budget: &pb.Budget{ModelCalls: most},
			})
			if err != nil {
				t.Fatal(err)
			}
			id := opened.GetSession().GetId()
			events, _ := c.idle(id)
			made := int64(0)
			for _, e := range events {
				if e.GetMessage().GetRole() == pb.Role_ROLE_ASSISTANT {
					made++
				}
			}
			want := int64(needed)
			if most > 0 {
				want = min(want, most)
			}
			got, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: id})
			if err != nil || made != want || got.GetSession().GetModelCalls() != made {
				t.Errorf("%d calls were made with a budget of %d, and %d counted: %v", made, most, got.GetSession().GetModelCalls(), err)
			}
			c.sound()
		}
	})
}

// TestAnAnswerOutlivesTheBudget: what a sub-agent has answered before its background child
// spends the budget is its result.
func TestAnAnswerOutlivesTheBudget(t *testing.T) {
	t.Parallel()
	onBoth(t, `
steps:
  - {when: {depth: 0}, calls: [{tool: task, input: {description: lead, prompt: lead, subagent_type: general-purpose}}]}
  - {when: {depth: 1, turn: 1}, calls: [{tool: task, input: {description: scan, prompt: scan, subagent_type: explore, background: true}}]}
  - {when: {depth: 1, turn: 2}, text: The answer is 42.}
  - {when: {depth: 2}, delay: 300ms, text: done}
`, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		opened, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
			Message: &pb.UserMessage{Text: "go"}, Budget: &pb.Budget{ModelCalls: 4},
		})
		if err != nil {
			t.Fatal(err)
		}
		session := opened.GetSession().GetId()
		events, _ := c.idle(session)
		lead := c.tasks(session)[1].GetId()
		if got := c.wait(session, lead); got.GetState() != pb.TaskState_TASK_STATE_COMPLETED || got.GetResult() != "The answer is 42." {
			t.Errorf("the sub-agent ended %s %s: %q", got.GetState(), got.GetReason(), got.GetResult())
		}
		answer := ""
		for _, e := range events {
			if e.GetTaskId() == lead && e.GetMessage().GetRole() == pb.Role_ROLE_ASSISTANT {
				answer = e.GetMessage().GetMessageId()
			}
			if named := e.GetResult().GetMessageId(); e.GetTaskId() == lead && e.GetResult() != nil && named != answer {
				t.Errorf("the result names message %q, the answer is %q", named, answer)
			}
		}
		c.sound()
	})
}

func tokens(u *pb.Usage) int64 {
	return u.GetInputTokens() + u.GetOutputTokens() + u.GetCacheReadTokens() + u.GetCacheWriteTokens()
}

// TestABudgetIsNoMoreThanAnother: a session has what it was opened with, but no more than
// each may have.
func TestABudgetIsNoMoreThanAnother(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.budget = tree.Budget{Tokens: 1000, Cost: 2_000_000, ModelCalls: 40}
	_, address := a.orchestrator()
	c := a.client(address)
	for _, test := range []struct{ asked, want *pb.Budget }{
		{nil, &pb.Budget{Tokens: 1000, CostMicros: 2_000_000, ModelCalls: 40}},
		{&pb.Budget{Tokens: 10}, &pb.Budget{Tokens: 10, CostMicros: 2_000_000, ModelCalls: 40}},
		{&pb.Budget{Tokens: 2000, CostMicros: 1, ModelCalls: 39}, &pb.Budget{Tokens: 1000, CostMicros: 1, ModelCalls: 39}},
		{&pb.Budget{ModelCalls: 41}, &pb.Budget{Tokens: 1000, CostMicros: 2_000_000, ModelCalls: 40}},
	} {
		opened, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "go"}, Budget: test.asked})
		if err != nil {
			t.Fatal(err)
		}
		if got := opened.GetSession().GetBudget(); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("of %v the session has %v, not %v", test.asked, got, test.want)
		}
	}
}
