package tree

import (
	"fmt"
	"slices"
)

// View is the part of one session that commands read and change. The store fills it with the rows
// that [View.Missing] names, decides commands on it one after another, and writes its [Changes]. It
// is not safe for concurrent use.
type View struct {
	session   *Session
	tasks     map[TaskID]*Task    // nil: looked up, does not exist
	children  map[TaskID][]TaskID // ids of tasks by parent; nil: to be computed
	stored    map[TaskID]*Task    // tasks as their rows have them
	calls     map[TaskID]map[CallRef]*Call
	open      map[TaskID]bool // calls has all open calls of the task
	inbox     map[TaskID][]*InboxEntry
	watchers  map[ChildRun][]WaitRow
	callbacks map[ChildRun]*Callback
	below     map[TaskID]bool // tasks has all tasks below the task
	callTimed bool            // calls may have timers; false: none has had one since the session was opened

	approvals map[ApprovalID]*Approval

	changes Changes
	asked   needs // reused by Missing
}

// CallKey names a call within its session.
type CallKey struct {
	Task TaskID
	Ref  CallRef
}

// Changes is what has to be written, all of it or nothing. In the maps a nil value deletes the row.
// Rows of the slices are new.
type Changes struct {
	Session   *Session // nil: unchanged
	Tasks     map[TaskID]*Task
	Calls     map[CallKey]*Call
	Settled   map[CallKey]bool // of Calls: those that waited for a run, and are closed with its outcome
	Messages  []*Message
	Runs      []*Run
	Events    []*Event
	Inbox     map[MessageID]*InboxEntry
	Waits     map[WaitRow]bool // false: the row is deleted
	Timers    map[CallKey]*Timer
	Ready     map[TaskID]*Ready
	Attempts  map[TaskID]*Attempt
	Callbacks map[ChildRun]*Callback

	// Phases are the phases of runs that are over. They are not stored.
	Phases []CompletedPhase
	// SpawnOutcomes are the results of requests for children. They are not stored.
	SpawnOutcomes []SpawnOutcome

	Approvals map[ApprovalID]*Approval

	// Released are runs whose workers must be told to move commands to the background. They are not
	// stored.
	Released []ReleasedCommands
	// Revoked are attempts that were ended from outside. Their workers must be told at once. They
	// are not stored.
	Revoked []Revoked
}

// Revoked is an attempt that was ended from outside.
type Revoked struct {
	Session SessionID
	Task    TaskID
	Epoch   int64
}

// NewView makes a view of a session; nil if the session does not exist.
func NewView(session *Session) *View { return &View{session: session, callTimed: session != nil} }

// set puts a value into a map, and makes the map if it is nil: most views use few of their maps.
func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// Changes returns what the commands decided so far have changed.
func (v *View) Changes() *Changes { return &v.changes }

// MarkCommitted is called when the changes are stored. The view can be used for more commands as
// long as nobody else changes the session. Rows of tasks that have ended are dropped from it;
// commands that need them get them as missing.
func (v *View) MarkCommitted() {
	for id, t := range v.changes.Tasks {
		if t.State.Terminal() && t.Depth > 0 {
			delete(v.tasks, id)
			v.children = nil
			delete(v.stored, id)
			delete(v.calls, id)
			delete(v.open, id)
			delete(v.inbox, id)
			delete(v.watchers, ChildRun{id, t.Run})
			clear(v.below)
			continue
		}
		v.store(t)
	}
	for key, c := range v.changes.Calls {
		if c.State == CallClosed {
			delete(v.calls[key.Task], key.Ref)
		}
	}
	v.callbacks, v.approvals, v.changes = nil, nil, Changes{}
}

// HeldTask returns a task; nil if the view does not hold it.
func (v *View) HeldTask(id TaskID) *Task { return v.tasks[id] }

// StoredTask returns a task as its row has it; nil if it has no row or the view does not hold it.
// The task is overwritten when changes are committed, and it is the held one until that may change.
func (v *View) StoredTask(id TaskID) *Task { return v.stored[id] }

func (v *View) store(t *Task) {
	if stored := v.stored[t.ID]; stored != nil {
		*stored = *t
		return
	}
	set(&v.stored, t.ID, t)
}

// mayChange is called before a decision gets a task that it may change. A task whose first row was
// just stored has shared its state with that: most children wait for long before they change.
func (v *View) mayChange(t *Task) {
	if t != nil && v.stored[t.ID] == t {
		stored := *t
		v.stored[t.ID] = &stored
	}
}

// Size is the number of tasks that the view holds.
func (v *View) Size() int { return len(v.tasks) }

// Session returns the session in its current state; nil if it does not exist.
func (v *View) Session() *Session { return v.session }

// Needs names rows that a command reads and the view does not hold yet.
type Needs struct {
	Tasks     []TaskID
	Calls     []CallKey
	OpenCalls []TaskID   // all calls of the task that are not closed
	Inbox     []TaskID   // the whole inbox, oldest first
	Watchers  []ChildRun // all waits for that run
	Below     []TaskID   // all tasks below the task; zero id: all tasks
	Approvals []ApprovalID
	Callbacks []ChildRun // the callback of that run
}

// Empty reports whether nothing is missing.
func (n *Needs) Empty() bool {
	return len(n.Tasks)+len(n.Calls)+len(n.OpenCalls)+len(n.Inbox)+len(n.Watchers)+len(n.Below)+len(n.Callbacks)+len(n.Approvals) == 0
}

// Missing names the rows that must be put before cmd can be decided. Rows may lead to other rows,
// so call it again after putting, until nothing is missing.
func (v *View) Missing(cmd Command) Needs {
	v.asked = needs{view: v}
	cmd.needs(&v.asked)
	return v.asked.Needs
}

// PutTask gives the view a stored task; nil: it does not exist.
func (v *View) PutTask(id TaskID, t *Task) {
	if _, held := v.tasks[id]; held {
		return
	}
	set(&v.tasks, id, t)
	v.children = nil
	if t != nil {
		v.store(t)
	}
}

// PutCall gives the view a stored call; nil: it does not exist.
func (v *View) PutCall(key CallKey, c *Call) {
	if _, held := v.calls[key.Task][key.Ref]; !held {
		v.holdCall(key, c)
	}
}

func (v *View) holdCall(key CallKey, c *Call) {
	calls := v.calls[key.Task]
	if calls == nil {
		calls = map[CallRef]*Call{}
		set(&v.calls, key.Task, calls)
	}
	calls[key.Ref] = c
}

// PutOpenCalls gives the view all stored open calls of a task.
func (v *View) PutOpenCalls(id TaskID, calls []*Call) {
	for _, c := range calls {
		v.PutCall(CallKey{id, c.Ref}, c)
	}
	set(&v.open, id, true)
}

// PutInbox gives the view the whole stored inbox of a task, oldest first.
func (v *View) PutInbox(id TaskID, entries []*InboxEntry) {
	if _, held := v.inbox[id]; !held {
		set(&v.inbox, id, entries)
	}
}

// PutWatchers gives the view all stored waits for a run.
func (v *View) PutWatchers(run ChildRun, rows []WaitRow) {
	if _, held := v.watchers[run]; !held {
		set(&v.watchers, run, rows)
	}
}

// PutBelow gives the view all stored tasks below a task.
func (v *View) PutBelow(id TaskID, tasks []*Task) {
	for _, t := range tasks {
		v.PutTask(t.ID, t)
	}
	set(&v.below, id, true)
}

// PutCallback gives the view the stored callback of a run; nil: there is none.
func (v *View) PutCallback(run ChildRun, c *Callback) {
	if _, held := v.callbacks[run]; !held {
		set(&v.callbacks, run, c)
	}
}

// needs collects what a command reads while it walks the view.
type needs struct {
	Needs
	view *View
}

func (n *needs) task(id TaskID) *Task {
	t, held := n.view.tasks[id]
	if !held && !slices.Contains(n.Tasks, id) {
		n.Tasks = append(n.Tasks, id)
	}
	return t
}

func (n *needs) call(id TaskID, ref CallRef) *Call {
	c, held := n.view.calls[id][ref]
	if !held {
		n.Calls = append(n.Calls, CallKey{id, ref})
	}
	return c
}

func (n *needs) openCalls(t *Task) {
	if t != nil && t.OpenCalls > 0 && !n.view.open[t.ID] {
		n.OpenCalls = append(n.OpenCalls, t.ID)
	}
}

// watchers asks for the waits for a task's current run.
func (n *needs) watchers(t *Task) []WaitRow {
	if t == nil || t.Watchers == 0 {
		return nil
	}
	run := ChildRun{t.ID, t.Run}
	rows, held := n.view.watchers[run]
	if !held {
		n.Watchers = append(n.Watchers, run)
	}
	return rows
}

// ancestors asks for all tasks from a task up to the root.
func (n *needs) ancestors(id TaskID) {
	for t := n.task(id); t != nil && !t.Parent.IsZero(); {
		t = n.task(t.Parent)
	}
}

// task gives a task that the command has asked for; nil if it does not exist.
func (v *View) task(id TaskID) *Task {
	t, held := v.tasks[id]
	if !held {
		panic(fmt.Sprintf("tree: task %s was not asked for", id))
	}
	v.mayChange(t)
	return t
}

func (v *View) call(id TaskID, ref CallRef) *Call {
	c, held := v.calls[id][ref]
	if !held {
		panic(fmt.Sprintf("tree: call %v of task %s was not asked for", ref, id))
	}
	return c
}

// openCalls gives the open calls of a task in block order.
func (v *View) openCalls(t *Task) []*Call {
	var open []*Call
	for _, c := range v.calls[t.ID] {
		if c != nil && c.State != CallClosed {
			open = append(open, c)
		}
	}
	if len(open) != t.OpenCalls {
		panic(fmt.Sprintf("tree: task %s has %d open calls, the view holds %d", t.ID, t.OpenCalls, len(open)))
	}
	slices.SortFunc(open, func(a, b *Call) int { return a.Ref.Block - b.Ref.Block })
	return open
}

// touchTask marks a task as changed.
func (v *View) touchTask(t *Task) {
	if v.stored[t.ID] == t {
		panic(fmt.Sprintf("tree: task %s was changed, but not by a decision that asked for it", t.ID))
	}
	if v.tasks[t.ID] == nil {
		v.children = nil
	}
	set(&v.tasks, t.ID, t)
	set(&v.changes.Tasks, t.ID, t)
}

// dropReady records that a run no longer waits for a worker. It has a row to delete only if it was
// pending when it was last stored.
func (v *View) dropReady(t *Task) {
	if was := v.stored[t.ID]; was != nil && was.State == StatePending {
		set(&v.changes.Ready, t.ID, nil)
		return
	}
	delete(v.changes.Ready, t.ID)
}

func (v *View) touchCall(c *Call) {
	key := CallKey{c.Task, c.Ref}
	v.holdCall(key, c)
	set(&v.changes.Calls, key, c)
}
