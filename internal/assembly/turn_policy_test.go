package assembly_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// asking is agents that look into a directory each turn and say what they saw; a
// root may be told to let others look.
const asking = `
steps:
  - when: {depth: 0, prompt: delegate, since_user: 1}
    calls:
      - {tool: task, input: {description: d, prompt: look, subagent_type: explore}}
      - {tool: task, input: {description: d, prompt: look, subagent_type: plan}}
  - when: {since_user: 1}
    calls: [{tool: ls, input: {path: .}}, {tool: glob, input: {pattern: '*.yaml'}}]
  - text: 'task: {{hasTool "task"}}, saw {{join " | " (results "*")}}'
`

// openAs opens a session with permissions, or for somebody outside.
func (c *client) openAs(text, source string, p *pb.Permissions) string {
	c.t.Helper()
	resp, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
		Message: &pb.UserMessage{Text: text}, Permissions: p, Source: source,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetSession().GetId()
}

func (c *client) hears(session, text, source string) {
	c.t.Helper()
	if _, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{
		SessionId: session, Message: &pb.UserMessage{Text: text}, Source: source,
	}); err != nil {
		c.t.Fatal(err)
	}
}

// blocked waits until the session is blocked and gives what it asks.
func (c *client) blocked(session string) []*pb.Approval {
	c.t.Helper()
	root, asked := c.blockedAt(session)
	if n := int(root.GetOpenApprovals()); n != len(asked) || n == 0 {
		c.t.Fatalf("the root counts %d approvals, there are %v", n, asked)
	}
	return asked
}

// blockedBelow waits until the session is blocked by what one sub-agent asks.
func (c *client) blockedBelow(session string) *pb.Approval {
	c.t.Helper()
	root, asked := c.blockedAt(session)
	if root.GetOpenApprovals() != 0 || len(asked) != 1 || asked[0].GetTaskId() == root.GetId() {
		c.t.Fatalf("the root is %v, asked is %v", root, asked)
	}
	return asked[0]
}

// blockedAt waits until the session is blocked and gives its root and what is asked.
func (c *client) blockedAt(session string) (*pb.Task, []*pb.Approval) {
	c.t.Helper()
	_, idle := c.idle(session)
	if idle.GetCause() != pb.IdleCause_IDLE_CAUSE_BLOCKED {
		c.t.Fatalf("idle because of %s, the root %v", idle.GetCause(), idle.GetRoot())
	}
	resp, err := c.ListApprovals(c.ctx(), &pb.ListApprovalsRequest{SessionId: session})
	if err != nil {
		c.t.Fatal(err)
	}
	return idle.GetRoot(), resp.GetApprovals()
}

func (c *client) decide(req *pb.DecideApprovalRequest) *pb.Approval {
	c.t.Helper()
	resp, err := c.DecideApproval(c.ctx(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetApproval()
}

func (c *client) doneWith(session string) string {
	c.t.Helper()
	if _, idle := c.idle(session); idle.GetCause() != pb.IdleCause_IDLE_CAUSE_DONE {
		c.t.Fatalf("idle because of %s", idle.GetCause())
	}
	root := c.wait(session, "")
	if root.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
		c.t.Fatalf("the root is %s: %s", root.GetState(), root.GetDetail())
	}
	return root.GetResult()
}

// TestApprovalsOutliveEverything asks in a root, kills all processes while the
// question is open, and decides then.
func TestApprovalsOutliveEverything(t *testing.T) {
	t.Parallel()
	onBoth(t, asking, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		ask := &pb.Permissions{Ask: []string{"ls(.)"}}
		allowed, denied, cancelled := c.openAs("a", "", ask), c.openAs("b", "", ask), c.openAs("c", "", ask)
		before := []*pb.Approval{c.blocked(allowed)[0], c.blocked(denied)[0], c.blocked(cancelled)[0]}
		c = d.killAll()
		for i, session := range []string{allowed, denied, cancelled} {
			if a := c.blocked(session)[0]; a.GetId() != before[i].GetId() || a.GetTool() != "ls" || a.GetArgument() != "." || !slices.Equal(a.GetRules(), []string{"ls(.)"}) {
				t.Errorf("after the kill session %d asks %v, before %v", i, a, before[i])
			}
		}

		yes := &pb.DecideApprovalRequest{ApprovalId: before[0].GetId(), Decision: pb.Decision_DECISION_ALLOW, Scope: pb.ApprovalScope_APPROVAL_SCOPE_SESSION}
		first := c.decide(yes)
		if again := c.decide(yes); !again.GetDecideTime().AsTime().Equal(first.GetDecideTime().AsTime()) {
			t.Errorf("decided at %v, and again at %v", first, again)
		}
		no := &pb.DecideApprovalRequest{ApprovalId: before[0].GetId(), Decision: pb.Decision_DECISION_DENY}
		if _, err := c.DecideApproval(c.ctx(), no); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "it was allowed for the session") {
			t.Errorf("another decision: %v", err)
		}
		if got := c.doneWith(allowed); !strings.Contains(got, "scenario.yaml") || strings.Contains(got, "APPROVAL_DENIED") {
			t.Errorf("allowed: %q", got)
		}
		c.hears(allowed, "again", "")
		if got := c.doneWith(allowed); !strings.Contains(got, "scenario.yaml") {
			t.Errorf("asked again: %q", got)
		}

		c.decide(&pb.DecideApprovalRequest{ApprovalId: before[1].GetId(), SessionId: denied, Decision: pb.Decision_DECISION_DENY, Message: "not there"})
		if got := c.doneWith(denied); !strings.Contains(got, "saw APPROVAL_DENIED: not there | scenario.yaml") {
			t.Errorf("denied: %q", got)
		}

		if _, err := c.CancelTask(c.ctx(), &pb.CancelTaskRequest{SessionId: cancelled}); err != nil {
			t.Fatal(err)
		}
		all, err := c.ListApprovals(c.ctx(), &pb.ListApprovalsRequest{SessionId: cancelled, IncludeDecided: true})
		if err != nil || len(all.GetApprovals()) != 1 || all.GetApprovals()[0].GetState() != pb.ApprovalState_APPROVAL_STATE_WITHDRAWN {
			t.Errorf("after a cancel: %v, %v", all, err)
		}
		if _, err := c.DecideApproval(c.ctx(), &pb.DecideApprovalRequest{ApprovalId: before[2].GetId(), Decision: pb.Decision_DECISION_ALLOW}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("deciding what was withdrawn: %v", err)
		}
		open, err := c.ListApprovals(c.ctx(), &pb.ListApprovalsRequest{})
		if err != nil || len(open.GetApprovals()) != 0 {
			t.Errorf("left open: %v, %v", open, err)
		}
		c.sound()
	})
}

// TestAuthorityIsHandedDown gives a child what its parent would have to ask about,
// and a task to an agent that none may be given to; everything is killed meanwhile.
func TestAuthorityIsHandedDown(t *testing.T) {
	t.Parallel()
	onBoth(t, asking, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.openAs("delegate", "", &pb.Permissions{
			Ask: []string{"ls", "task(explore)"}, Deny: []string{"task(plan)"}, Approvals: pb.SubagentApprovals_SUBAGENT_APPROVALS_DENY,
		})
		asked := c.blocked(session)
		if len(asked) != 1 || asked[0].GetTool() != "task" || asked[0].GetArgument() != "explore" {
			t.Fatalf("asked: %v", asked)
		}
		c = d.killAll()
		c.decide(&pb.DecideApprovalRequest{ApprovalId: asked[0].GetId(), Decision: pb.Decision_DECISION_ALLOW})
		got := c.doneWith(session)
		for _, want := range []string{"APPROVAL_DENIED: ls asks, and a sub-agent has nobody to ask", "PERMISSION_DENIED: the rule task(plan) denies it", "scenario.yaml"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %q", want, got)
			}
		}
		if got := c.denials(session); !slices.Equal(got, []string{
			`task "plan" by PERMISSION [] since the rule task(plan) denies it`,
			`ls "." by NOBODY_ASKED [ls] since ls asks, and a sub-agent has nobody to ask`,
		}) {
			t.Errorf("told as denied: %q", got)
		}
		if n := len(c.tasks(session)); n != 2 {
			t.Errorf("%d tasks", n)
		}
		_, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "plan", Prompt: "look"})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("a client spawns what is denied: %v", err)
		}
		c.sound()
	})
}

// TestSubAgentsAsk: unless the session says otherwise, what a sub-agent asks is asked in the
// session's approvals, and outlives all processes.
func TestSubAgentsAsk(t *testing.T) {
	t.Parallel()
	onBoth(t, asking, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.openAs("delegate", "", &pb.Permissions{Ask: []string{"ls"}, Deny: []string{"task(plan)"}})
		before := c.blockedBelow(session)
		c = d.killAll()
		asked := c.blockedBelow(session)
		if asked.GetId() != before.GetId() || asked.GetTool() != "ls" {
			t.Errorf("after the kill it asks %v, before %v", asked, before)
		}
		c.decide(&pb.DecideApprovalRequest{ApprovalId: asked.GetId(), Decision: pb.Decision_DECISION_ALLOW})
		if got := c.doneWith(session); !strings.Contains(got, "scenario.yaml") || strings.Contains(got, "APPROVAL_DENIED") {
			t.Errorf("the root answers %q", got)
		}
		_, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Permissions: &pb.Permissions{Approvals: 7}})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a word that there is not: %v", err)
		}
		c.sound()
	})
}

// TestOutsidersHaveNoInternalTools opens sessions for somebody outside, and speaks
// to one from outside.
func TestOutsidersHaveNoInternalTools(t *testing.T) {
	t.Parallel()
	onBoth(t, asking, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		const refused = "task: false, saw TOOL_INTERNAL: the run is on behalf of mcp"
		outside := c.openAs("delegate", "mcp", nil)
		if got := c.doneWith(outside); !strings.HasPrefix(got, refused) {
			t.Errorf("a session from outside: %q", got)
		}
		c.hears(outside, "more", "")
		if got := c.doneWith(outside); !strings.HasPrefix(got, refused) {
			t.Errorf("it is from outside for good: %q", got)
		}
		inside := c.openAs("delegate", "", nil)
		if got := c.doneWith(inside); !strings.HasPrefix(got, "task: true") || strings.Contains(got, "TOOL_INTERNAL") {
			t.Errorf("a session from inside: %q", got)
		}
		c.hears(inside, "more", "mcp")
		if got := c.doneWith(inside); !strings.HasPrefix(got, refused) {
			t.Errorf("a message from outside: %q", got)
		}
		all := c.transcript(inside, "")
		c.hears(inside, "again", "")
		c.doneWith(inside)
		again := c.branch(&pb.CreateBranchRequest{SessionId: inside, MessageId: all[len(all)-1].GetId(), Regenerate: true})
		if task := c.wait(inside, again.GetId()); task.GetSource() != "mcp" || !strings.HasPrefix(task.GetResult(), "task: false") {
			t.Errorf("it is answered once more: %v", task)
		}
		spawned, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: inside, Agent: "explore", Prompt: "look", Source: "a2a"})
		if err != nil {
			t.Fatal(err)
		}
		if task := c.wait(inside, spawned.GetTask().GetId()); task.GetSource() != "a2a" || !strings.HasPrefix(task.GetResult(), "task: false") {
			t.Errorf("a task from outside: %v", task)
		}
		_, err = c.CreateSession(c.ctx(), &pb.CreateSessionRequest{Source: "no such\n"})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a source that is no name: %v", err)
		}
		c.sound()
	})
}

// TestWorkersHearWhomResultsAreFrom: with the result of a task from outside a worker is told
// that its run is for somebody outside by now, also if it asks again.
func TestWorkersHearWhomResultsAreFrom(t *testing.T) {
	t.Parallel()
	_, c, _ := alone(t)
	a := c.first()
	h := c.hand()
	if assigned, _ := h.claimWith(a, nil); assigned.GetSource() != "" {
		t.Fatalf("the claim was answered with %v", assigned)
	}
	spawned, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: a.session, Agent: "explore", Prompt: "look", Source: "a2a"})
	if err != nil {
		t.Fatal(err)
	}
	h.ask(calling("task_output", "{}"))
	reads := &pb.WorkRequest{Kind: &pb.WorkRequest_WaitFor{WaitFor: &pb.WaitFor{TaskId: spawned.GetTask().GetId()}}}
	answers := []*pb.WorkResponse{h.ask(reads)}
	h.cut()
	h = c.hand()
	h.reattach(a, 2)
	answers = append(answers, h.again(2, reads))
	h.cut()
	for _, resp := range answers {
		if b := resp.GetAck().GetBoundary(); b.GetSource() != "a2a" {
			t.Errorf("the call was answered with %v", resp)
		}
	}
	c.sound()
}

// TestWrongInputAsksNobody: a call that does not fit its tool is answered to the model, so that no
// person sees a question about it.
func TestWrongInputAsksNobody(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - when: {turn: 1}
    calls: [{tool: write, input: {file_path: out.txt, content: hi}}]
  - text: 'saw {{join " | " (results "*")}}'
`, func(*assembly.Dev) {})
	said := c.doneWith(c.openAs("a", "", &pb.Permissions{Mode: pb.PermissionMode_PERMISSION_MODE_DEFAULT}))
	if !strings.HasPrefix(said, "saw wrong input: path: missing") {
		t.Errorf("the root answers %q", said)
	}
	c.sound()
}

// TestNobodyDecides lets approvals expire.
func TestNobodyDecides(t *testing.T) {
	t.Parallel()
	limits := tree.DefaultLimits()
	limits.Approval = 5 * time.Second
	c := setup(t, asking, func(d *assembly.Dev) { d.Limits = &limits })
	session := c.openAs("a", "", &pb.Permissions{Ask: []string{"ls"}})
	asked := c.blocked(session)[0]
	if root := c.wait(session, ""); !strings.Contains(root.GetResult(), "saw APPROVAL_DENIED: nobody decided within 5s") {
		t.Errorf("the root answers %q", root.GetResult())
	}
	_, err := c.DecideApproval(c.ctx(), &pb.DecideApprovalRequest{ApprovalId: asked.GetId(), Decision: pb.Decision_DECISION_ALLOW})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "it expired") {
		t.Errorf("a decision too late: %v", err)
	}
	c.sound()
}

// clerks is a root that lets a clerk look, who asks before it does.
const clerks = `
steps:
  - when: {agent: general-purpose, turn: 1}
    calls: [{tool: task, input: {description: d, prompt: look, subagent_type: clerk}}]
  - when: {agent: clerk, turn: 1}
    calls: [{tool: ls, input: {path: .}}, {tool: glob, input: {pattern: '*.yaml'}}]
  - when: {agent: helper}
    text: 'ls: {{hasTool "ls"}}, glob: {{hasTool "glob"}}'
  - text: 'saw {{join " | " (results "*")}}'
`

// TestDefinitionsBindTheirAgents takes the question of a sub-agent to the session,
// kills everything while it is open, and starts an agent in the background that has
// fewer tools there.
func TestDefinitionsBindTheirAgents(t *testing.T) {
	t.Parallel()
	onBoth(t, clerks, func(d *deployment) {
		d.write("agents/clerk.md", "---\nname: clerk\ndescription: Looks.\nmode: subagent\npermissions:\n  ask: [ls]\n"+
			"  deny: ['glob(**)']\napprovals: escalate\n---\nYou look.\n",
			"agents/helper.md", "---\nname: helper\ndescription: Helps.\nmode: subagent\nbackground_tools: [glob]\n---\nYou help.\n")
		d.orchestratorFlags = []string{"--agents-dir", d.in("agents")}
	}, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create("go").GetId()
		_, idle := c.idle(session)
		if idle.GetCause() != pb.IdleCause_IDLE_CAUSE_BLOCKED {
			t.Fatalf("idle because of %s", idle.GetCause())
		}
		c = d.killAll()
		open, err := c.ListApprovals(c.ctx(), &pb.ListApprovalsRequest{SessionId: session})
		if err != nil || len(open.GetApprovals()) != 1 || open.GetApprovals()[0].GetTool() != "ls" {
			t.Fatalf("open: %v, %v", open, err)
		}
		c.decide(&pb.DecideApprovalRequest{ApprovalId: open.GetApprovals()[0].GetId(), Decision: pb.Decision_DECISION_ALLOW})
		if got := c.doneWith(session); !strings.Contains(got, "scenario.yaml | PERMISSION_DENIED: the rule glob(**) denies it") {
			t.Errorf("the root answers %q", got)
		}
		spawned, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: session, Agent: "helper", Prompt: "help"})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.wait(session, spawned.GetTask().GetId()).GetResult(); got != "ls: false, glob: true" {
			t.Errorf("in the background the helper has %q", got)
		}
		c.sound()
	})
}

// denials gives what a watcher is told of calls that were denied.
func (c *client) denials(session string) []string {
	c.t.Helper()
	var told []string
	events, _ := c.idle(session)
	for _, e := range events {
		if d := e.GetCallClosed().GetDenial(); d != nil {
			cause := strings.TrimPrefix(d.GetCause().String(), "DENIAL_CAUSE_")
			told = append(told, fmt.Sprintf("%s %q by %s %v since %s", d.GetTool(), d.GetArgument(), cause, d.GetRules(), d.GetDetail()))
		}
	}
	return told
}
