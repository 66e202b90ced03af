package chaos

import (
	"math"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// past is what the log of a session tells, sorted by task.
type past struct {
	tasks map[string]*life
	order []*life // as they first appear
}

// life is what the log tells of a task.
type life struct {
	id         string
	started    []*pb.Event // one a run
	results    []*pb.Event
	deliveries []delivery
	messages   map[int32]*pb.Event // by ordinal
	lastAt     int32               // ordinal of the last message
	opened     []ref               // in the order of the log
	closed     map[ref][]*pb.Event
	backed     map[int32]bool // runs that a client has put into the background
	queued     int            // user messages that waited for a boundary
	news       map[childRun][]*pb.Event
	newsQueued map[childRun]int
	losses     map[int32]int // lost attempts, by the last ordinal at that time
	madeWay    int           // attempts that ended for want of budget
	state      pb.TaskState
	path       string // where in the tree; see Course
}

// ref is a call of a task.
type ref struct{ message, block int32 }

func refOf(c *pb.CallRef) ref { return ref{c.GetMessage(), c.GetBlock()} }

// childRun is one run of a child.
type childRun struct {
	task string
	run  int32
}

func childOf(c *pb.ChildRun) childRun { return childRun{c.GetTaskId(), c.GetRun()} }

// delivery is a run's time with one worker, between two events of the log.
type delivery struct {
	epoch    int64
	run      int32
	worker   string
	from, to int64 // numbers of the events that began and ended it
	began    *pb.Event
	end      *pb.Event // nil: it goes on
}

func (d *delivery) holds(e *pb.Event) bool {
	return e != nil && d.from <= e.GetSeq() && e.GetSeq() <= d.to
}

// recount sorts a log by task.
func recount(events []*pb.Event) *past {
	p := &past{tasks: map[string]*life{}}
	for _, e := range events {
		l := p.tasks[e.GetTaskId()]
		if l == nil {
			l = &life{
				id: e.GetTaskId(), state: pb.TaskState_TASK_STATE_NEW, messages: map[int32]*pb.Event{},
				closed: map[ref][]*pb.Event{}, news: map[childRun][]*pb.Event{},
				newsQueued: map[childRun]int{}, losses: map[int32]int{}, backed: map[int32]bool{},
			}
			p.tasks[l.id] = l
			p.order = append(p.order, l)
		}
		l.add(e)
	}
	for _, l := range p.order {
		l.path = p.pathOf(l)
	}
	return p
}

func (l *life) add(e *pb.Event) {
	switch k := e.GetKind().(type) {
	case *pb.Event_Started:
		l.started = append(l.started, e)
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
		r := refOf(k.CallClosed.GetCall())
		l.closed[r] = append(l.closed[r], e)
	case *pb.Event_Backgrounded:
		l.backed[e.GetRun()] = true
	case *pb.Event_Parked:
		l.release(e)
		l.state = pb.TaskState_TASK_STATE_WAITING
	case *pb.Event_Ready:
		switch k.Ready.GetCause() {
		case pb.ReadyCause_READY_CAUSE_REDELIVERED:
			l.losses[l.lastAt]++
			l.release(e)
		case pb.ReadyCause_READY_CAUSE_MADE_WAY:
			l.madeWay++
			l.release(e)
		}
		l.state = pb.TaskState_TASK_STATE_PENDING
	case *pb.Event_Result:
		l.results = append(l.results, e)
		l.release(e)
		l.state = k.Result.GetState()
	case *pb.Event_Queued:
		if news := k.Queued.GetNews(); news != nil {
			l.newsQueued[childOf(news)]++
		} else {
			l.queued++
		}
	}
}

func (l *life) message(e *pb.Event, m *pb.MessageAppended) {
	l.messages[m.GetOrdinal()] = e
	l.lastAt = m.GetOrdinal()
	for _, c := range m.GetCalls() {
		l.opened = append(l.opened, ref{m.GetOrdinal(), c.GetBlock()})
	}
	if m.GetNews() != nil {
		l.news[childOf(m.GetNews())] = append(l.news[childOf(m.GetNews())], e)
	}
}

// release ends the delivery under way with an event.
func (l *life) release(e *pb.Event) {
	if n := len(l.deliveries); n > 0 && l.deliveries[n-1].end == nil {
		l.deliveries[n-1].end, l.deliveries[n-1].to = e, e.GetSeq()
	}
}

// gaveWay reports whether the delivery ended as a worker's wish to park ends it.
func (d *delivery) gaveWay() bool {
	return d.end.GetParked() != nil || d.end.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_MADE_WAY
}

// delivery gives the one of an epoch; nil if there is none.
func (l *life) delivery(epoch int64) *delivery {
	for i := range l.deliveries {
		if l.deliveries[i].epoch == epoch {
			return &l.deliveries[i]
		}
	}
	return nil
}

// first is the start of the first run; nil if there is none.
func (l *life) first() *pb.TaskStarted {
	if len(l.started) == 0 {
		return nil
	}
	return l.started[0].GetStarted()
}

// last is the result of the last run; nil if it goes on.
func (l *life) last() *pb.TaskResult {
	if len(l.results) == 0 || len(l.results) < len(l.started) {
		return nil
	}
	return l.results[len(l.results)-1].GetResult()
}

// lost counts the attempts that were taken from a worker.
func (l *life) lost() int {
	n := 0
	for _, times := range l.losses {
		n += times
	}
	return n
}
