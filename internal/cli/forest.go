package cli

import (
	"strings"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// forest is the tasks of a session and what each of them does. It is built from events in their
// order, or from a snapshot. Texts are stored unchanged, and made safe when they are shown.
type forest struct {
	title   string
	root    *node
	nodes   map[string]*node
	order   []*node // in order of appearance
	lastSeq int64   // number of the last applied event

	denied int64 // calls that were denied, as the session counts them; each node counts those that events showed
}

// node is a task. tools, denied and spent are of all runs; the rest is of the current run.
type node struct {
	id       string
	parent   *node
	children []*node
	depth    int

	agent       string
	shell       bool // it is a command, not an agent
	description string
	background  bool
	branch      bool // started by a person from a message of the task above
	current     bool // it gets the messages of the session

	run           int32
	state         pb.TaskState
	reason        pb.Reason
	detail        string
	attempts      int // deliveries of the run
	activity      string
	preview       tail // what its model is writing
	waitDone      int32
	waitTotal     int32 // of a wait; 0: it waits for nothing
	openCalls     int   // of its last message; a run that is parked without any waits for background tasks
	questions     []*pb.ApprovalRequested
	openApprovals int32     // number of open approvals, if only that is known
	queued        time.Time // since when it waits for a worker; zero: it does not
	start         time.Time
	lastReported  time.Time // when its worker last reported
	end           time.Time

	tools, pastTools int64
	denied           int64  // of the tool calls, as far as events say
	lastDenied       string // the last of them
	spent, pastSpent tokenUsage
}

func newForest() *forest {
	return &forest{nodes: map[string]*node{}}
}

// shellName is shown in place of an agent's name.
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

// elapsed returns how long the current run has taken.
func (n *node) elapsed(now time.Time) time.Duration {
	switch {
	case n.start.IsZero():
		return 0
	case !n.end.IsZero():
		now = n.end
	}
	return max(0, now.Sub(n.start))
}

// find returns the node of a task, and creates it if necessary.
func (f *forest) find(id string) *node {
	if n := f.nodes[id]; n != nil {
		return n
	}
	n := &node{id: id}
	f.nodes[id] = n
	f.order = append(f.order, n)
	return n
}

// attach puts a node below its parent. A task whose parent is unknown is put below the root.
func (f *forest) attach(n *node, parent string) {
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

// apply applies an event. Events that were applied before change nothing.
func (f *forest) apply(e *pb.Event) {
	if e.GetSeq() <= f.lastSeq {
		return
	}
	f.lastSeq = e.GetSeq()
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
		f.attach(n, k.BranchOpened.GetBase().GetTaskId())
		return
	case *pb.Event_BranchSelected:
		for _, other := range f.order {
			other.current = other == n
		}
	case *pb.Event_Started:
		n.begin(e.GetRun(), k.Started, at)
		f.attach(n, k.Started.GetParentId())
		return
	case *pb.Event_Dispatched:
		n.dispatch(at)
	case *pb.Event_Message:
		n.addMessage(k.Message, at)
	case *pb.Event_CallClosed:
		n.closeCall(k.CallClosed)
	case *pb.Event_Queued:
		if k.Queued.GetNews() != nil && n.openCalls == 0 {
			n.countArrival()
		}
	case *pb.Event_Backgrounded:
		n.background = true
	case *pb.Event_Parked:
		n.state = pb.TaskState_TASK_STATE_WAITING
		n.waitDone, n.waitTotal = k.Parked.GetWait().GetMet(), k.Parked.GetWait().GetTotal()
	case *pb.Event_Ready:
		n.state, n.queued = pb.TaskState_TASK_STATE_PENDING, at
		n.waitDone, n.waitTotal = 0, 0
	case *pb.Event_Progress:
		n.activity, n.lastReported = k.Progress.GetActivity(), at
	case *pb.Event_HookRan:
		n.activity = hookText(k.HookRan)
	case *pb.Event_Result:
		n.finish(k.Result, at)
	default:
		n.applyApproval(e)
	}
	f.attach(n, "")
}

// closeCall applies the result of a call.
func (n *node) closeCall(c *pb.CallClosed) {
	n.openCalls--
	n.countArrival()
	if d := c.GetDenial(); d != nil {
		n.denied++
		n.lastDenied = deniedCall(d, maxDeniedArgument)
		n.activity = "denied: " + n.lastDenied
	}
}

// countArrival counts something that a parked run waits for.
func (n *node) countArrival() {
	if n.state == pb.TaskState_TASK_STATE_WAITING {
		n.waitDone = min(n.waitDone+1, n.waitTotal)
	}
}

// begin starts a run.
func (n *node) begin(run int32, s *pb.TaskStarted, at time.Time) {
	n.pastTools, n.pastSpent = n.tools, n.spent
	n.run, n.state = run, pb.TaskState_TASK_STATE_PENDING
	n.reason, n.detail = pb.Reason_REASON_UNSPECIFIED, ""
	n.attempts, n.activity, n.preview = 0, "", tail{}
	n.waitDone, n.waitTotal = 0, 0
	n.queued, n.start, n.end = at, time.Time{}, time.Time{}
	n.agent, n.description, n.background = s.GetAgent(), s.GetDescription(), s.GetBackground()
	n.shell = s.GetKind() == pb.TaskKind_TASK_KIND_SHELL
}

func (n *node) dispatch(at time.Time) {
	n.state = pb.TaskState_TASK_STATE_RUNNING
	n.attempts++
	n.activity, n.preview = "", tail{}
	n.lastReported = at
	if n.start.IsZero() {
		n.start = at
	}
}

func (n *node) addMessage(m *pb.MessageAppended, at time.Time) {
	n.spent = n.spent.addUsage(m.GetUsage()) // a summary has some too
	if m.GetRole() != pb.Role_ROLE_ASSISTANT {
		return
	}
	n.preview, n.lastReported = tail{}, at
	n.openCalls = len(m.GetCalls())
	n.tools += int64(len(m.GetCalls()))
	if m.GetActivity() != "" {
		n.activity = m.GetActivity()
	}
}

// finish ends a run. The figures in the result replace the counted ones.
func (n *node) finish(r *pb.TaskResult, at time.Time) {
	n.state, n.reason, n.detail = r.GetState(), r.GetReason(), r.GetDetail()
	n.activity, n.preview = "", tail{}
	n.waitDone, n.waitTotal = 0, 0
	n.end = at
	n.tools = n.pastTools + int64(r.GetToolUses())
	n.spent = n.pastSpent.addUsage(r.GetUsage())
}

// preview applies a piece of an answer in progress.
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

// restartText says why an answer was given up, and what happens next.
func restartText(d *pb.Delta) string { return strings.Trim(d.GetText(), "[]\n ") }

// forestOf builds the forest of a snapshot. Its root is the requested task.
func forestOf(t *pb.GetTreeResponse) *forest {
	f := newForest()
	f.title = t.GetSession().GetTitle()
	f.lastSeq = t.GetSession().GetLastSeq()
	var add func(parent string, at *pb.TreeNode)
	add = func(parent string, at *pb.TreeNode) {
		n := f.find(at.GetTask().GetId())
		n.set(at.GetTask())
		n.current = n.id == t.GetSession().GetCurrentTaskId()
		f.attach(n, parent)
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
	n.waitDone, n.waitTotal, n.openApprovals = t.GetWait().GetMet(), t.GetWait().GetTotal(), t.GetOpenApprovals()
	if t.GetParentId() != "" && !n.branch && t.GetRun() == 1 { // other tasks may have been created before their first run
		n.queued = t.GetCreateTime().AsTime()
	}
	if t.GetStartTime() != nil {
		n.start = t.GetStartTime().AsTime()
	}
	if t.GetReportTime() != nil {
		n.lastReported = t.GetReportTime().AsTime()
	}
	if t.GetEndTime() != nil {
		n.end = t.GetEndTime().AsTime()
	}
	n.tools, n.spent = int64(t.GetToolUses()), tokenUsage{}.addUsage(t.GetUsage())
}

// maxTail is how much of an answer in progress is kept, in bytes.
const maxTail = 400

// tail is the end of a text in progress.
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

// applyStep applies a step of a watched session.
func (f *forest) applyStep(s *pb.WatchSessionResponse) {
	switch k := s.GetStep().(type) {
	case *pb.WatchSessionResponse_Event:
		f.apply(k.Event)
	case *pb.WatchSessionResponse_Delta:
		f.preview(k.Delta)
	}
}
