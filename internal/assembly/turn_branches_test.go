package assembly_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// whole reads what a task inherits, and its own messages.
func (c *client) whole(session, task string) (inherited, own []*pb.Message) {
	c.t.Helper()
	stream, err := c.GetTranscript(c.ctx(), &pb.GetTranscriptRequest{
		SessionId: session, TaskId: task, IncludeInherited: true,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return inherited, own
		case err != nil:
			c.t.Fatal(err)
		case resp.GetInherited():
			inherited = append(inherited, resp.GetMessages()...)
		default:
			own = append(own, resp.GetMessages()...)
		}
	}
}

func same(a, b []*pb.Message) bool {
	return slices.EqualFunc(a, b, func(a, b *pb.Message) bool { return proto.Equal(a, b) })
}

const forked = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: ls, input: {path: .}}]
  - when: {depth: 0, turn: 2}
    calls: [{tool: task, for_each: numbers 3, input: {description: 'part {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore, fork_context: true}}]
  - when: {depth: 0, turn: 3}
    calls: [{tool: task, input: {description: late, prompt: late, subagent_type: explore, fork_context: true}}]
  - when: {depth: 0}
    text: 'joined {{len (results "task")}}'
  - delay: 700ms
    text: '{{.User}} after {{.Prompt}}, turn {{.Turn}}'
`

// TestForksSeeTheirParent forks three children in one message and one later, and
// kills everything while the three are at work.
func TestForksSeeTheirParent(t *testing.T) {
	t.Parallel()
	onBoth(t, forked, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create("go").GetId()
		children := 0
		c.events(session, func(e *pb.Event) bool {
			if e.GetDispatched() != nil && e.GetTaskId() != c.root(session) {
				children++
			}
			return children == 3
		})
		c = d.killAll()
		c.idle(session)
		if root := c.wait(session, ""); root.GetResult() != "joined 4" {
			t.Errorf("the root ended %s with %q: %s", root.GetState(), root.GetResult(), root.GetDetail())
		}
		var first []*pb.Message
		for _, task := range c.tasks(session) {
			if task.GetDepth() == 0 {
				continue
			}
			inherited, own := c.whole(session, task.GetId())
			want, turn := task.GetDescription()+" after go, turn ", "3"
			if task.GetDescription() == "late" {
				turn = "4"
			}
			if got := c.wait(session, task.GetId()).GetResult(); got != want+turn {
				t.Errorf("%s answered %q, want %q", task.GetDescription(), got, want+turn)
			}
			if first == nil {
				first = inherited
			}
			if len(inherited) < 5 || !same(inherited[:3], first[:3]) || len(own) != 2 {
				t.Errorf("%s inherits %v, a sibling %v; its own are %v", task.GetDescription(), inherited, first, own)
			}
			if task.GetBase().GetKind() != pb.BaseKind_BASE_KIND_CALL || own[0].GetOrdinal() != task.GetBase().GetOrdinal()+2 {
				t.Errorf("%s goes on from %v with message %d", task.GetDescription(), task.GetBase(), own[0].GetOrdinal())
			}
		}
		c.sound()
	})
}

// TestAClientForks forks a task through the API, and gives it another task later.
func TestAClientForks(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{when: {depth: 0}, text: 'hi {{.User}}'}, {text: '{{.User}} after {{.Prompt}}, turn {{.Turn}}'}]`, nil)
	session := c.create("go").GetId()
	c.idle(session)
	fork := c.spawn(&pb.SpawnTaskRequest{SessionId: session, Agent: "explore", Prompt: "look", ForkContext: true})
	if got := c.wait(session, fork.GetId()).GetResult(); got != "look after go, turn 2" {
		t.Errorf("the fork answered %q", got)
	}
	inherited, own := c.whole(session, fork.GetId())
	if len(inherited) != 3 || len(own) != 2 || !strings.Contains(inherited[2].GetBlocks()[0].GetText().GetText(), "You are a sub-agent") {
		t.Errorf("the fork inherits %v before %v", inherited, own)
	}
	c.say(session, "", "more")
	c.idle(session)
	c.say(session, fork.GetId(), "again")
	if got := c.wait(session, fork.GetId()).GetResult(); got != "again after go, turn 3" {
		t.Errorf("resumed, the fork answered %q", got)
	}
	c.sound()
}

// say sends a message to a task.
func (c *client) say(session, task, text string) *pb.Task {
	c.t.Helper()
	resp, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{
		SessionId: session, TaskId: task, Message: &pb.UserMessage{Text: text},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetTask()
}

func (c *client) branch(req *pb.CreateBranchRequest) *pb.Task {
	c.t.Helper()
	resp, err := c.CreateBranch(c.ctx(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetTask()
}

const branching = `
steps:
  - when: {depth: 1}
    delay: 700ms
    text: found
  - when: {last: background, turn: 2}
    calls: [{tool: task, input: {description: d, prompt: p, subagent_type: explore, run_in_background: true}}]
  - when: {last: slowly}
    delay: 700ms
    text: 'slowly, turn {{.Turn}}'
  - text: '{{shorten 40 .User}} after {{.Prompt}}, turn {{.Turn}}'
`

// TestBranches goes on from messages of a conversation in every way, and kills
// everything while two branches are at work.
func TestBranches(t *testing.T) {
	t.Parallel()
	onBoth(t, branching, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create("one").GetId()
		c.idle(session)
		c.say(session, "", "two")
		c.idle(session)
		base := c.transcript(session, "")
		on := &pb.CreateBranchRequest{SessionId: session, MessageId: base[1].GetId(), Text: "slowly", IdempotencyKey: "k", Select: true}
		slow := c.branch(on)
		if again := c.branch(on); again.GetId() != slow.GetId() {
			t.Errorf("the same request made %s and %s", slow.GetId(), again.GetId())
		}
		background := c.branch(&pb.CreateBranchRequest{SessionId: session, MessageId: base[1].GetId(), Text: "background"})
		started := map[string]bool{}
		c.events(session, func(e *pb.Event) bool {
			if e.GetDispatched() != nil {
				started[e.GetTaskId()] = true
			}
			return started[slow.GetId()] && len(started) == 4 // the root, two branches, a child of one
		})
		c = d.killAll()
		c.idle(session)
		if got := c.wait(session, slow.GetId()); got.GetResult() != "slowly, turn 2" || got.GetDepth() != 0 ||
			got.GetBranch() != pb.TaskBranch_TASK_BRANCH_HUMAN {
			t.Errorf("the branch ended %q: %v", got.GetResult(), got)
		}
		if got := c.wait(session, background.GetId()); got.GetRun() != 2 || !strings.Contains(got.GetResult(), "after one") {
			t.Errorf("the end of a background child started run %d of its branch: %q", got.GetRun(), got.GetResult())
		}
		if now := c.transcript(session, ""); !same(now, base) {
			t.Errorf("the base was\n%v\nand is\n%v", base, now)
		}
		// A message without a task goes to the branch that was selected.
		if sent := c.say(session, "", "on"); sent.GetId() != slow.GetId() {
			t.Errorf("the message went to %s", sent.GetId())
		}
		c.idle(session)
		inherited, own := c.whole(session, slow.GetId())
		if !same(inherited, base[:2]) || len(own) != 4 || own[0].GetParentId() != base[1].GetId() {
			t.Errorf("the branch inherits %v before %v", inherited, own)
		}
		tree, err := c.GetTree(c.ctx(), &pb.GetTreeRequest{SessionId: session})
		if err != nil || len(tree.GetRoot().GetBranches()) != 2 || len(tree.GetRoot().GetChildren()) != 0 ||
			tree.GetSession().GetCurrentTaskId() != slow.GetId() || len(tree.GetRoot().GetBranches()[1].GetChildren()) != 1 {
			t.Errorf("the tree is %v, %v", tree, err)
		}
		c.sound()
	})
}

// TestAlternatives lets a model answer again, and branches off branches.
func TestAlternatives(t *testing.T) {
	t.Parallel()
	c := setup(t, `
steps:
  - {when: {depth: 0, turn: 1, last: look}, calls: [{tool: ls, input: {path: .}}]}
  - text: '{{shorten 40 .User}} after {{.Prompt}}, turn {{.Turn}}'
`, nil)
	session := c.create("look").GetId()
	c.idle(session)
	base := c.transcript(session, "")  // look, the call, its result, the answer
	for _, from := range []int{2, 3} { // the result, and the answer itself
		again := c.branch(&pb.CreateBranchRequest{SessionId: session, MessageId: base[from].GetId(), Regenerate: true})
		c.wait(session, again.GetId())
		inherited, own := c.whole(session, again.GetId())
		if !same(inherited, base[:3]) || len(own) != 1 || own[0].GetBlocks()[0].GetText().GetText() != "look after look, turn 2" {
			t.Errorf("an alternative of message %d is %v after %v", from+1, own, inherited)
		}
		deeper := c.branch(&pb.CreateBranchRequest{SessionId: session, TaskId: again.GetId(), MessageId: own[0].GetId(), Text: "deeper"})
		if got := c.wait(session, deeper.GetId()).GetResult(); got != "deeper after look, turn 3" {
			t.Errorf("a branch of a branch answered %q", got)
		}
	}
	cut := c.branch(&pb.CreateBranchRequest{SessionId: session, MessageId: base[1].GetId(), Text: "instead"})
	if got := c.wait(session, cut.GetId()).GetResult(); got != "instead after look, turn 1" {
		t.Errorf("a branch from a message with calls answered %q", got)
	}
	apart := c.branch(&pb.CreateBranchRequest{
		SessionId: session, MessageId: base[3].GetId(), Text: "anew", InheritContext: proto.Bool(false),
	})
	if got := c.wait(session, apart.GetId()).GetResult(); got != "anew after anew, turn 1" {
		t.Errorf("a branch without context answered %q", got)
	}
	c.sound()
}

// TestBranchesOfNothing asks for branches that can't be.
func TestBranchesOfNothing(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{text: done}]`, nil)
	session, other := c.create("one").GetId(), c.create("two").GetId()
	c.idle(session)
	c.idle(other)
	mine, theirs := c.transcript(session, ""), c.transcript(other, "")
	child := c.spawn(&pb.SpawnTaskRequest{SessionId: session})
	c.idle(session)
	for _, test := range []struct {
		want codes.Code
		req  *pb.CreateBranchRequest
	}{
		{codes.NotFound, &pb.CreateBranchRequest{SessionId: session, MessageId: theirs[0].GetId()}},
		{codes.NotFound, &pb.CreateBranchRequest{SessionId: session, TaskId: child.GetId(), MessageId: mine[0].GetId()}},
		{codes.NotFound, &pb.CreateBranchRequest{SessionId: session, TaskId: c.root(other), MessageId: theirs[0].GetId()}},
		{codes.NotFound, &pb.CreateBranchRequest{SessionId: session, MessageId: session}},
		{codes.InvalidArgument, &pb.CreateBranchRequest{SessionId: session}},
		{codes.InvalidArgument, &pb.CreateBranchRequest{SessionId: session, MessageId: "2"}},
		{codes.InvalidArgument, &pb.CreateBranchRequest{SessionId: session, MessageId: mine[0].GetId(), Text: "x", Regenerate: true}},
		{codes.InvalidArgument, &pb.CreateBranchRequest{
			SessionId: session, MessageId: mine[0].GetId(), Regenerate: true, InheritContext: proto.Bool(false),
		}},
		{codes.ResourceExhausted, &pb.CreateBranchRequest{SessionId: session, MessageId: mine[0].GetId(), Text: strings.Repeat("x", 2<<20)}},
	} {
		if _, err := c.CreateBranch(c.ctx(), test.req); status.Code(err) != test.want {
			t.Errorf("%.200v: %v, want %s", test.req, err, test.want)
		}
	}
	for task, want := range map[string]codes.Code{
		child.GetId(): codes.InvalidArgument, c.root(other): codes.NotFound, "x": codes.InvalidArgument, "": codes.OK,
	} {
		if _, err := c.SelectBranch(c.ctx(), &pb.SelectBranchRequest{SessionId: session, TaskId: task}); status.Code(err) != want {
			t.Errorf("selecting %q: %v, want %s", task, err, want)
		}
	}
	c.sound()
}

// longTask is a task that is worth to be summed up.
var longTask = "go" + strings.Repeat(" on", 25_000)

const compacting = `
steps:
  - when: {last: sum up the conversation}
    delay: 700ms
    text: 'they said {{slice .Prompt 0 2}}'
  - when: {turn: 1, prompt: ^go}
    calls: [{tool: ls, input: {path: .}}]
    usage: {input: 170000}
  - text: '{{.Prompt}}, turn {{.Turn}}'
`

// TestCompaction lets a conversation come near the window of its model, and kills
// everything while the summary is being made.
func TestCompaction(t *testing.T) {
	t.Parallel()
	onBoth(t, compacting, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create(longTask).GetId()
		c.events(session, func(e *pb.Event) bool { return strings.HasPrefix(e.GetProgress().GetActivity(), "sums up") })
		c = d.killAll()
		c.idle(session)
		root := c.wait(session, "")
		if got := root.GetResult(); !strings.HasPrefix(got, "What came before was summed up") || !strings.HasSuffix(got, "they said go, turn 2") {
			t.Errorf("the root ended %s with %q: %s", root.GetState(), got, root.GetDetail())
		}
		all := c.transcript(session, "")
		summaries := 0
		for _, m := range all {
			if m.GetSumsUpTo() > 0 {
				summaries++
			}
		}
		if summaries != 1 || len(all) != 5 || root.GetCompactedOrdinal() != 4 || all[3].GetSumsUpTo() != 1 {
			t.Errorf("%d summaries in %v", summaries, all)
		}
		before := c.branch(&pb.CreateBranchRequest{SessionId: session, MessageId: all[2].GetId(), Regenerate: true})
		if got := c.wait(session, before.GetId()); got.GetResult() == "" {
			t.Errorf("a branch from before the summary ended %v", got)
		}
		after := c.branch(&pb.CreateBranchRequest{SessionId: session, MessageId: all[4].GetId(), Text: "on"})
		if got := c.wait(session, after.GetId()).GetResult(); !strings.HasSuffix(got, "they said go, turn 3") {
			t.Errorf("a branch from after the summary answered %q", got)
		}
		c.sound()
	})
}

const compactingResults = `
steps:
  - when: {last: sum up the conversation}
    text: summary
  - when: {turn: 1, prompt: ^go}
    calls: [{tool: ls, input: {path: .}}, {tool: glob, input: {pattern: "*"}}]
    usage: {input: 170000}
  - text: '{{len (results "ls")}} ls, {{len (results "glob")}} glob, last {{.Last}}'
`

// TestCompactionKeepsResults lets a worker sum up a conversation that ends with results of its
// own. The model still has to see them.
func TestCompactionKeepsResults(t *testing.T) {
	t.Parallel()
	onBoth(t, compactingResults, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create(longTask).GetId()
		root := c.wait(session, "")
		if got := root.GetResult(); !strings.HasPrefix(got, "1 ls, 1 glob, last ") || strings.Contains(got, "summed up") {
			t.Errorf("the root ended %s with %q: %s", root.GetState(), got, root.GetDetail())
		}
		c.sound()
	})
}
