package chaos

import (
	"math"
	"slices"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// sessionHistory is the log of a session, by task.
type sessionHistory struct {
	tasks    map[string]*taskHistory
	order    []*taskHistory // by first appearance
	selected []string       // tasks that have become current, in log order
	granted  int64          // sequence number of the first decision for the whole session; 0: none
	closed   int64          // sequence number of the event that closed the session; 0: it is open
}

// taskHistory is what the log says about a task.
type taskHistory struct {
	id           string
	branch       *pb.BranchOpened // nil: it is none
	inherited    int32            // ordinal of the last message that it does not have itself
	imported     int32            // ordinal of the last message that it was opened with
	isCommand    bool
	started      []*pb.Event // one per run
	results      []*pb.Event
	deliveries   []delivery
	messages     map[int32]*pb.Event // by ordinal
	lastOrdinal  int32               // ordinal of the last message
	opened       []callRef           // in log order
	closed       map[callRef][]*pb.Event
	approvals    []*approval
	backgrounded map[int32]bool // runs that a client moved to the background
	queued       []*pb.Event    // user messages that waited for a boundary
	news         map[childRun][]*pb.Event
	newsQueued   map[childRun]int
	losses       map[int32]int // lost attempts, by the last ordinal at that time
	inARow       int           // lost attempts of the run since its last answer
	poisoned     []int         // the same, of each run that was given up for them
	madeWay      int           // attempts that ended because of the budget
	state        pb.TaskState
	path         string // place in the tree; see pathOf
}

// callRef identifies a call of a task.
type callRef struct{ message, block int32 }

func callRefOf(c *pb.CallRef) callRef { return callRef{c.GetMessage(), c.GetBlock()} }

// childRun is one run of a child.
type childRun struct {
	task string
	run  int32
}

func childOf(c *pb.ChildRun) childRun { return childRun{c.GetTaskId(), c.GetRun()} }

// approval is what the log says about a call that asks.
type approval struct {
	id     string
	call   callRef
	asked  int64              // sequence number of the question
	states []pb.ApprovalState // that it has got
}

// delivery is one attempt of a run, between two events of the log.
type delivery struct {
	epoch    int64
	run      int32
	worker   string
	from, to int64 // sequence numbers of the first and the last event
	began    *pb.Event
	end      *pb.Event // nil: it continues
}

func (d *delivery) contains(e *pb.Event) bool {
	return e != nil && d.from <= e.GetSeq() && e.GetSeq() <= d.to
}

// historyOf groups a log by task.
func historyOf(events []*pb.Event) *sessionHistory {
	p := &sessionHistory{tasks: map[string]*taskHistory{}}
	for _, e := range events {
		l := p.tasks[e.GetTaskId()]
		if l == nil {
			l = &taskHistory{
				id: e.GetTaskId(), state: pb.TaskState_TASK_STATE_NEW, messages: map[int32]*pb.Event{},
				closed: map[callRef][]*pb.Event{}, news: map[childRun][]*pb.Event{},
				newsQueued: map[childRun]int{}, losses: map[int32]int{}, backgrounded: map[int32]bool{},
			}
			p.tasks[l.id] = l
			p.order = append(p.order, l)
		}
		l.add(e)
		if e.GetBranchSelected() != nil {
			p.selected = append(p.selected, l.id)
		}
		if p.granted == 0 && e.GetApprovalDecided().GetScope() == pb.ApprovalScope_APPROVAL_SCOPE_SESSION {
			p.granted = e.GetSeq()
		}
		if e.GetSessionChanged().GetChange() == pb.SessionChange_SESSION_CHANGE_CLOSED {
			p.closed = e.GetSeq()
		}
	}
	for _, l := range p.order {
		l.path = p.pathOf(l)
	}
	return p
}

func (l *taskHistory) add(e *pb.Event) {
	switch k := e.GetKind().(type) {
	case *pb.Event_BranchOpened:
		l.branch = k.BranchOpened
		l.inherit(l.branch.GetBase())
	case *pb.Event_Imported:
		l.imported = k.Imported.GetMessages()
		l.lastOrdinal = l.imported
	case *pb.Event_Started:
		l.inherit(k.Started.GetBase())
		l.started, l.inARow = append(l.started, e), 0
		l.isCommand = k.Started.GetKind() == pb.TaskKind_TASK_KIND_SHELL
		l.state = pb.TaskState_TASK_STATE_PENDING
	case *pb.Event_Dispatched:
		l.deliveries = append(l.deliveries, delivery{
			epoch: k.Dispatched.GetEpoch(), run: e.GetRun(), worker: k.Dispatched.GetWorkerId(),
			from: e.GetSeq(), to: math.MaxInt64, began: e,
		})
		l.state = pb.TaskState_TASK_STATE_RUNNING
	case *pb.Event_Message:
		l.message(e, k.Message)
	case *pb.Event_CallClosed:
		r := callRefOf(k.CallClosed.GetCall())
		l.closed[r] = append(l.closed[r], e)
	case *pb.Event_ApprovalRequested:
		asked := k.ApprovalRequested
		l.approvals = append(l.approvals, &approval{id: asked.GetApprovalId(), call: callRefOf(asked.GetCall()), asked: e.GetSeq()})
	case *pb.Event_ApprovalDecided:
		l.decide(k.ApprovalDecided.GetApprovalId(), k.ApprovalDecided.GetState())
	case *pb.Event_ApprovalExpired:
		l.decide(k.ApprovalExpired.GetApprovalId(), pb.ApprovalState_APPROVAL_STATE_EXPIRED)
	case *pb.Event_Backgrounded:
		l.backgrounded[e.GetRun()] = true
	case *pb.Event_Parked:
		l.endDelivery(e)
		l.state = pb.TaskState_TASK_STATE_WAITING
	case *pb.Event_Ready:
		switch k.Ready.GetCause() {
		case pb.ReadyCause_READY_CAUSE_REDELIVERED:
			l.losses[l.lastOrdinal]++
			l.inARow++
			l.endDelivery(e)
		case pb.ReadyCause_READY_CAUSE_MADE_WAY:
			l.madeWay++
			l.endDelivery(e)
		}
		l.state = pb.TaskState_TASK_STATE_PENDING
	case *pb.Event_Result:
		l.results = append(l.results, e)
		if k.Result.GetReason() == pb.Reason_REASON_POISONED {
			l.poisoned = append(l.poisoned, l.inARow+1)
		}
		l.endDelivery(e)
		l.state = k.Result.GetState()
	case *pb.Event_Queued:
		if news := k.Queued.GetNews(); news != nil {
			l.newsQueued[childOf(news)]++
		} else {
			l.queued = append(l.queued, e)
		}
	}
}

// inherit notes where the task's own messages begin. A fork leaves one ordinal free.
func (l *taskHistory) inherit(base *pb.Base) {
	switch base.GetKind() {
	case pb.BaseKind_BASE_KIND_BRANCH:
		l.inherited = base.GetOrdinal()
	case pb.BaseKind_BASE_KIND_FORK, pb.BaseKind_BASE_KIND_CALL:
		l.inherited = base.GetOrdinal() + 1
	default:
		return
	}
	l.lastOrdinal = max(l.lastOrdinal, l.inherited)
}

func (l *taskHistory) message(e *pb.Event, m *pb.MessageAppended) {
	l.messages[m.GetOrdinal()] = e
	l.lastOrdinal = m.GetOrdinal()
	if m.GetRole() == pb.Role_ROLE_ASSISTANT {
		l.inARow = 0
	}
	for _, c := range m.GetCalls() {
		l.opened = append(l.opened, callRef{m.GetOrdinal(), c.GetBlock()})
	}
	if m.GetNews() != nil {
		l.news[childOf(m.GetNews())] = append(l.news[childOf(m.GetNews())], e)
	}
}

func (l *taskHistory) decide(id string, state pb.ApprovalState) {
	a := l.approval(id)
	if a == nil {
		a = &approval{id: id} // of no call: it was never asked for
		l.approvals = append(l.approvals, a)
	}
	a.states = append(a.states, state)
}

// approval returns an approval of the task, or nil.
func (l *taskHistory) approval(id string) *approval {
	for _, a := range l.approvals {
		if a.id == id {
			return a
		}
	}
	return nil
}

// wasRefused reports whether a call of the task was not allowed.
func (l *taskHistory) wasRefused() bool {
	return slices.ContainsFunc(l.approvals, func(a *approval) bool {
		return !slices.Equal(a.states, []pb.ApprovalState{pb.ApprovalState_APPROVAL_STATE_ALLOWED})
	})
}

// endDelivery ends the current delivery with an event.
func (l *taskHistory) endDelivery(e *pb.Event) {
	if n := len(l.deliveries); n > 0 && l.deliveries[n-1].end == nil {
		l.deliveries[n-1].end, l.deliveries[n-1].to = e, e.GetSeq()
	}
}

// parkedOrMadeWay reports whether the delivery ended as after a worker's request to park.
func (d *delivery) parkedOrMadeWay() bool {
	return d.end.GetParked() != nil || d.end.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_MADE_WAY
}

// delivery returns the delivery of an epoch, or nil.
func (l *taskHistory) delivery(epoch int64) *delivery {
	for i := range l.deliveries {
		if l.deliveries[i].epoch == epoch {
			return &l.deliveries[i]
		}
	}
	return nil
}

// firstStart returns the start of the first run, or nil.
func (l *taskHistory) firstStart() *pb.TaskStarted {
	if len(l.started) == 0 {
		return nil
	}
	return l.started[0].GetStarted()
}

// lastResult returns the result of the last run; nil if that continues.
func (l *taskHistory) lastResult() *pb.TaskResult {
	if len(l.results) == 0 || len(l.results) < len(l.started) {
		return nil
	}
	return l.results[len(l.results)-1].GetResult()
}

// cancelledRuns counts the runs that were cancelled.
func (l *taskHistory) cancelledRuns() int {
	n := 0
	for _, e := range l.results {
		if e.GetResult().GetState() == pb.TaskState_TASK_STATE_CANCELLED {
			n++
		}
	}
	return n
}

// lostAttempts counts the attempts that were taken from a worker.
func (l *taskHistory) lostAttempts() int {
	n := 0
	for _, times := range l.losses {
		n += times
	}
	return n
}
