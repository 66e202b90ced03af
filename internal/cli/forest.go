package cli

import (
	"strings"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// forest is what a person sees of a session: its tasks and what each of them is
// doing. It is built from events in their order, or from a snapshot; texts are
// kept as they came.
type forest struct {
	title string
	root  *node
	nodes map[string]*node
	order []*node // as they came
	last  int64   // the last event applied

	denied int64 // calls that were denied, as the session counts them; each node counts those that events showed
}

// node is a task. Figures are of all its runs, the rest is of the current one.
type node struct {
	id       string
	parent   *node
	children []*node
	depth    int

	agent       string
	shell       bool // it is a command, and has no agent
	description string
	background  bool
	branch      bool // a person goes on in it from a message of the task above

	run      int32
	state    pb.TaskState
	reason   pb.Reason
	detail   string
	attempts int // deliveries of the run
	activity string
	preview  tail // what its model is writing
	met      int32
	total    int32 // of a wait; 0 if it waits for nothing
	asks     []*pb.ApprovalRequested
	asking   int32     // how many there are, where only that is known
	queued   time.Time // since when it waits for a worker, while it does
	start    time.Time
	heard    time.Time // when its worker last reported
	end      time.Time

	tools, pastTools int64
	denied           int64 // of the tool calls, as far as events tell
	spent, pastSpent spending
}

func newForest() *forest {
	return &forest{nodes: map[string]*node{}}
}

// shellName is what stands in the place of an agent's name.
const shellName = "shell:"

// ended reports whether the current run has ended.
func (n *node) ended() bool { return hasEnded(n.state) }

func hasEnded(s pb.TaskState) bool {
	switch s {
	case pb.TaskState_TASK_STATE_COMPLETED, pb.TaskState_TASK_STATE_FAILED, pb.TaskState_TASK_STATE_CANCELLED:
		return true
	}
	return false
}

// elapsed is how long the current run has taken, or took.
func (n *node) elapsed(now time.Time) time.Duration {
	switch {
	case n.start.IsZero():
		return 0
	case !n.end.IsZero():
		now = n.end
	}
	return max(0, now.Sub(n.start))
}

// find gives the node of a task, and makes one if there is none.
func (f *forest) find(id string) *node {
	if n := f.nodes[id]; n != nil {
		return n
	}
	n := &node{id: id}
	f.nodes[id] = n
	f.order = append(f.order, n)
	return n
}

// hang puts a node where it belongs. A task whose parent is not known stands
// beneath the root.
func (f *forest) hang(n *node, parent string) {
	switch {
	case n == f.root || n.parent != nil:
		return
	case f.root == nil:
		f.root = n
		return
	}
	n.parent = f.root
	if p := f.nodes[parent]; p != nil && p != n {
		n.parent = p
	}
	n.depth = n.parent.depth + 1
	n.parent.children = append(n.parent.children, n)
}

// apply takes in an event. Events that were applied already change nothing.
func (f *forest) apply(e *pb.Event) {
	if e.GetSeq() <= f.last {
		return
	}
	f.last = e.GetSeq()
	n := f.find(e.GetTaskId())
	at := e.GetTime().AsTime()
	switch k := e.GetKind().(type) {
	case *pb.Event_SessionOpened:
		f.title = k.SessionOpened.GetTitle()
		n.agent = k.SessionOpened.GetAgent()
		n.state = pb.TaskState_TASK_STATE_NEW
	case *pb.Event_BranchOpened:
		n.state, n.branch = pb.TaskState_TASK_STATE_NEW, true
		n.agent, n.description = k.BranchOpened.GetAgent(), k.BranchOpened.GetDescription()
		f.hang(n, k.BranchOpened.GetBase().GetTaskId())
		return
	case *pb.Event_Started:
		n.begin(e.GetRun(), k.Started, at)
		f.hang(n, k.Started.GetParentId())
		return
	case *pb.Event_Dispatched:
		n.dispatch(at)
	case *pb.Event_Message:
		n.hear(k.Message, at)
	case *pb.Event_CallClosed:
		n.closed(k.CallClosed)
	case *pb.Event_Backgrounded:
		n.background = true
	case *pb.Event_Parked:
		n.state = pb.TaskState_TASK_STATE_WAITING
		n.met, n.total = k.Parked.GetWait().GetMet(), k.Parked.GetWait().GetTotal()
	case *pb.Event_Ready:
		n.state, n.queued = pb.TaskState_TASK_STATE_PENDING, at
		n.met, n.total = 0, 0
	case *pb.Event_Progress:
		n.activity, n.heard = k.Progress.GetActivity(), at
	case *pb.Event_HookRan:
		n.activity = hookText(k.HookRan)
	case *pb.Event_Result:
		n.finish(k.Result, at)
	default:
		n.ask(e)
	}
	f.hang(n, "")
}

// closed takes in that a call has its result.
func (n *node) closed(c *pb.CallClosed) {
	if n.state == pb.TaskState_TASK_STATE_WAITING {
		n.met = min(n.met+1, n.total)
	}
	if d := c.GetDenial(); d != nil {
		n.denied++
		n.activity = "denied: " + deniedCall(d, deniedMost)
	}
}

// begin starts a run.
func (n *node) begin(run int32, s *pb.TaskStarted, at time.Time) {
	n.pastTools, n.pastSpent = n.tools, n.spent
	n.run, n.state = run, pb.TaskState_TASK_STATE_PENDING
	n.reason, n.detail = pb.Reason_REASON_UNSPECIFIED, ""
	n.attempts, n.activity, n.preview = 0, "", tail{}
	n.met, n.total = 0, 0
	n.queued, n.start, n.end = at, time.Time{}, time.Time{}
	n.agent, n.description, n.background = s.GetAgent(), s.GetDescription(), s.GetBackground()
	n.shell = s.GetKind() == pb.TaskKind_TASK_KIND_SHELL
}

func (n *node) dispatch(at time.Time) {
	n.state = pb.TaskState_TASK_STATE_RUNNING
	n.attempts++
	n.activity, n.preview = "", tail{}
	n.heard = at
	if n.start.IsZero() {
		n.start = at
	}
}

func (n *node) hear(m *pb.MessageAppended, at time.Time) {
	if m.GetRole() != pb.Role_ROLE_ASSISTANT {
		return
	}
	n.preview, n.heard = tail{}, at
	n.tools += int64(len(m.GetCalls()))
	n.spent = n.spent.and(m.GetUsage())
}

// finish ends a run. What the result says of the run's figures is what counts.
func (n *node) finish(r *pb.TaskResult, at time.Time) {
	n.state, n.reason, n.detail = r.GetState(), r.GetReason(), r.GetDetail()
	n.activity, n.preview = "", tail{}
	n.met, n.total = 0, 0
	n.end = at
	n.tools = n.pastTools + int64(r.GetToolUses())
	n.spent = n.pastSpent.and(r.GetUsage())
}

// preview takes in a piece of an answer under way.
func (f *forest) preview(d *pb.Delta) {
	n := f.nodes[d.GetTaskId()]
	if n == nil || n.run != d.GetRun() || n.state != pb.TaskState_TASK_STATE_RUNNING {
		return
	}
	if d.GetRestart() {
		n.preview = tail{}
		n.preview.add(restartText(d)+"\n", false)
		return
	}
	n.preview.add(d.GetText(), d.GetThinking())
}

// restartText says why an answer was given up, and what is done about it.
func restartText(d *pb.Delta) string { return strings.Trim(d.GetText(), "[]\n ") }

// forestOf builds the forest of a snapshot; its top is the task asked for.
func forestOf(t *pb.GetTreeResponse) *forest {
	f := newForest()
	f.title = t.GetSession().GetTitle()
	f.last = t.GetSession().GetLastSeq()
	var add func(parent string, at *pb.TreeNode)
	add = func(parent string, at *pb.TreeNode) {
		n := f.find(at.GetTask().GetId())
		n.set(at.GetTask())
		f.hang(n, parent)
		for _, child := range at.GetChildren() {
			add(n.id, child)
		}
		for _, branch := range at.GetBranches() {
			add(n.id, branch)
		}
	}
	if t.GetRoot() != nil {
		add("", t.GetRoot())
	}
	return f
}

func (n *node) set(t *pb.Task) {
	n.agent, n.description, n.background = t.GetAgent(), t.GetDescription(), t.GetBackground()
	n.shell = t.GetKind() == pb.TaskKind_TASK_KIND_SHELL
	n.branch = t.GetBranch() == pb.TaskBranch_TASK_BRANCH_HUMAN
	n.run, n.state, n.reason, n.detail = t.GetRun(), t.GetState(), t.GetReason(), t.GetDetail()
	if !n.ended() {
		n.activity = t.GetActivity()
	}
	n.met, n.total, n.asking = t.GetWait().GetMet(), t.GetWait().GetTotal(), t.GetOpenApprovals()
	if t.GetParentId() != "" && !n.branch && t.GetRun() == 1 { // others may be older than their first run
		n.queued = t.GetCreateTime().AsTime()
	}
	if t.GetStartTime() != nil {
		n.start = t.GetStartTime().AsTime()
	}
	if t.GetReportTime() != nil {
		n.heard = t.GetReportTime().AsTime()
	}
	if t.GetEndTime() != nil {
		n.end = t.GetEndTime().AsTime()
	}
	n.tools, n.spent = int64(t.GetToolUses()), spending{}.and(t.GetUsage())
}

// maxTail is how much of an answer under way is kept, in bytes.
const maxTail = 400

// tail is the end of a text that is being written.
type tail struct {
	text     string
	thinking bool
}

func (t *tail) add(text string, thinking bool) {
	if thinking != t.thinking {
		t.text, t.thinking = "", thinking
	}
	t.text += text
	if len(t.text) > maxTail {
		t.text = t.text[len(t.text)-maxTail:]
	}
}

// step takes in a step of a watched session.
func (f *forest) step(s *pb.WatchSessionResponse) {
	switch k := s.GetStep().(type) {
	case *pb.WatchSessionResponse_Event:
		f.apply(k.Event)
	case *pb.WatchSessionResponse_Delta:
		f.preview(k.Delta)
	}
}
