package tree

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// database holds the rows of one session as a store would. Nothing in it is
// shared with a view: rows go in and out by value.
type database struct {
	session   *Session
	tasks     map[TaskID]Task
	calls     map[CallKey]Call
	messages  map[TaskID][]Message
	runs      map[ChildRun]Run
	events    []Event
	inbox     map[MessageID]InboxEntry
	waits     map[WaitRow]int // the write that made it
	timers    map[CallKey]Timer
	ready     map[TaskID]Ready
	attempts  map[TaskID]Attempt
	callbacks map[ChildRun]Callback

	approvals map[ApprovalID]Approval

	// asked remembers who wanted each run, which only the current run's row says.
	asked map[ChildRun]requester
	// dropped are the runs of which news was taken from an inbox.
	dropped map[ChildRun]bool

	now    time.Time
	ids    uint64
	writes int
}

// began is when a session in memory begins.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newDatabase() *database {
	return &database{
		tasks:     map[TaskID]Task{},
		calls:     map[CallKey]Call{},
		messages:  map[TaskID][]Message{},
		runs:      map[ChildRun]Run{},
		inbox:     map[MessageID]InboxEntry{},
		waits:     map[WaitRow]int{},
		timers:    map[CallKey]Timer{},
		ready:     map[TaskID]Ready{},
		attempts:  map[TaskID]Attempt{},
		callbacks: map[ChildRun]Callback{},
		asked:     map[ChildRun]requester{},
		approvals: map[ApprovalID]Approval{},
		dropped:   map[ChildRun]bool{},
		now:       began,
	}
}

// clone gives a database of its own with the same rows.
func (db *database) clone() *database {
	c := *db
	c.session = copied(db.session)
	c.tasks, c.calls, c.runs = maps.Clone(db.tasks), maps.Clone(db.calls), maps.Clone(db.runs)
	c.inbox, c.waits, c.timers = maps.Clone(db.inbox), maps.Clone(db.waits), maps.Clone(db.timers)
	c.ready, c.attempts, c.asked = maps.Clone(db.ready), maps.Clone(db.attempts), maps.Clone(db.asked)
	c.dropped = maps.Clone(db.dropped)
	c.events, c.callbacks = slices.Clone(db.events), maps.Clone(db.callbacks)
	c.approvals = maps.Clone(db.approvals)
	c.messages = map[TaskID][]Message{}
	for id, messages := range db.messages {
		c.messages[id] = slices.Clone(messages)
	}
	return &c
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// env is what a decision takes from outside. Ids are counted, so the same
// commands make the same rows.
func (db *database) env() Env {
	return Env{Now: db.now, Replica: "replica-1", NewID: func() [16]byte {
		db.ids++
		var id [16]byte
		id[6], id[8] = 0x70, 0x80
		binary.BigEndian.PutUint32(id[12:], uint32(db.ids)) //nolint:gosec // no test makes that many ids
		return id
	}}
}

func (db *database) view() *View { return NewView(copied(db.session)) }

// load puts exactly what the view misses for a command, until nothing is
// missing.
func (db *database) load(v *View, cmd Command) {
	for missing := v.Missing(cmd); !missing.Empty(); missing = v.Missing(cmd) {
		for _, id := range missing.Tasks {
			v.PutTask(id, found(db.tasks, id))
		}
		for _, key := range missing.Calls {
			v.PutCall(key, found(db.calls, key))
		}
		for _, id := range missing.OpenCalls {
			v.PutOpenCalls(id, db.openCalls(id))
		}
		for _, id := range missing.Inbox {
			v.PutInbox(id, db.inboxOf(id))
		}
		for _, run := range missing.Watchers {
			v.PutWatchers(run, db.watchersOf(run))
		}
		for _, id := range missing.Below {
			v.PutBelow(id, db.below(id))
		}
		for _, id := range missing.Approvals {
			v.PutApproval(id, found(db.approvals, id))
		}
		for _, run := range missing.Callbacks {
			v.PutCallback(run, found(db.callbacks, run))
		}
	}
}

// below gives all tasks below one, in no order.
func (db *database) below(id TaskID) []*Task {
	children := map[TaskID][]*Task{}
	for _, t := range db.tasks {
		children[t.Parent] = append(children[t.Parent], &t)
	}
	all := slices.Clone(children[id])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].ID]...)
	}
	return all
}

func found[K comparable, V any](rows map[K]V, key K) *V {
	if row, ok := rows[key]; ok {
		return &row
	}
	return nil
}

func (db *database) openCalls(id TaskID) []*Call {
	var open []*Call
	for _, c := range db.calls {
		if c.Task == id && c.State != CallClosed {
			open = append(open, &c)
		}
	}
	slices.SortFunc(open, func(a, b *Call) int { return a.Ref.Block - b.Ref.Block })
	return open
}

func (db *database) inboxOf(id TaskID) []*InboxEntry {
	var entries []*InboxEntry
	for _, e := range db.inbox {
		if e.Task == id {
			entries = append(entries, &e)
		}
	}
	slices.SortFunc(entries, func(a, b *InboxEntry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return entries
}

// watchersOf gives the waits on a run, oldest first.
func (db *database) watchersOf(run ChildRun) []WaitRow {
	var rows []WaitRow
	for row := range db.waits {
		if row.Target == run {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b WaitRow) int {
		return cmp.Or(db.waits[a]-db.waits[b], bytes.Compare(a.Task[:], b.Task[:]), a.Ref.Block-b.Ref.Block)
	})
	return rows
}

// decided is what became of one command.
type decided struct {
	Answer Answer
	Err    error
}

// decide decides one command on a view. A refusal has to be a named one and to
// leave the view as it was; a worker's request that was taken has to have been
// the current attempt's next one.
func (db *database) decide(v *View, cmd Command) (decided, error) {
	db.load(v, cmd)
	before := snapshot(v)
	answer, err := Decide(v, db.env(), cmd)
	if err != nil {
		if CodeOf(err) == CodeInternal {
			return decided{}, fmt.Errorf("%T was refused without a named error: %w", cmd, err)
		}
		if !reflect.DeepEqual(before, snapshot(v)) {
			return decided{}, fmt.Errorf("%T was refused (%w) and changed the view all the same", cmd, err)
		}
		return decided{Err: err}, nil
	}
	if err := fenced(before, cmd); err != nil {
		return decided{}, err
	}
	if c, cancels := cmd.(Cancel); cancels {
		if err := holds(before, v, c); err != nil {
			return decided{}, err
		}
	}
	return decided{Answer: answer}, nil
}

// holds reports a cancel that was taken and has left something that runs below it, or has
// done something although it was about a run that others have followed.
func holds(before, v *View, c Cancel) error {
	top := v.session.OrRoot(c.Task)
	if c.Run > 0 && c.Run < before.tasks[top].Run {
		if !reflect.DeepEqual(before, snapshot(v)) {
			return fmt.Errorf("a cancel of run %d has changed a task at run %d", c.Run, before.tasks[top].Run)
		}
		return nil
	}
	for _, t := range v.descendants(top) {
		if t.State.Active() {
			return fmt.Errorf("task %s is %s below the cancelled %s", t.ID, t.State, top)
		}
	}
	return nil
}

// fenced reports a command that was taken although it named an attempt or a
// delivery that was not the current one.
func fenced(before *View, cmd Command) error {
	ok := true
	switch c := cmd.(type) {
	case Claim:
		t := before.tasks[c.Task]
		again := t.State == StateRunning && t.Token() == c.Token && t.LastSeq == 0
		ok = t.State == StatePending && t.Epoch == c.Token.Epoch || again
	case Reattach:
		t := before.tasks[c.Task]
		ok = t.State == StateRunning && t.Token() == c.Token
	case Repeat:
		t := before.tasks[c.From.Task]
		ok = t.State == StateRunning && t.Token() == c.From.Token && t.Attach == c.From.Attach && c.From.Seq <= t.LastSeq
	case Redeliver:
		t := before.tasks[c.Task]
		ok = t.State == StateRunning && t.Epoch == c.Epoch && (c.Attach == 0 || c.Attach == t.Attach)
	default:
		if from, has := fromOf(cmd); has {
			t := before.tasks[from.Task]
			ok = t.State == StateRunning && t.Token() == from.Token && t.Attach == from.Attach && t.LastSeq+1 == from.Seq
		}
	}
	if !ok {
		return fmt.Errorf("%T was taken, but is not of the current attempt: %+v", cmd, cmd)
	}
	return nil
}

// fromOf gives the From of a worker's request.
func fromOf(cmd Command) (From, bool) {
	f := reflect.ValueOf(cmd).FieldByName("From")
	if !f.IsValid() {
		return From{}, false
	}
	from, ok := f.Interface().(From)
	return from, ok
}

// commit decides commands on one view and writes what they changed.
func (db *database) commit(cmds ...Command) ([]decided, error) {
	v := db.view()
	var all []decided
	for _, cmd := range cmds {
		one, err := db.decide(v, cmd)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, db.write(v.Changes())
}

// snapshot is a deep copy of a view. Messages, events, runs and blocks are
// immutable once made, so copies of the rows are deep enough.
func snapshot(v *View) *View {
	s := &View{
		session: copied(v.session),
		tasks:   rows(v.tasks), calls: callsOf(v), open: maps.Clone(v.open), below: maps.Clone(v.below),
		callbacks: rows(v.callbacks), approvals: rows(v.approvals),
		inbox: map[TaskID][]*InboxEntry{}, watchers: map[ChildRun][]WaitRow{},
	}
	for id, entries := range v.inbox {
		s.inbox[id] = nil
		for _, e := range entries {
			s.inbox[id] = append(s.inbox[id], copied(e))
		}
	}
	for run, waits := range v.watchers {
		s.watchers[run] = slices.Clone(waits)
	}
	c := v.changes
	s.changes = Changes{
		Session: copied(c.Session), Tasks: rows(c.Tasks), Calls: rows(c.Calls),
		Messages: slices.Clone(c.Messages), Runs: slices.Clone(c.Runs), Events: slices.Clone(c.Events),
		Inbox: rows(c.Inbox), Waits: maps.Clone(c.Waits), Timers: rows(c.Timers),
		Ready: rows(c.Ready), Attempts: rows(c.Attempts), Callbacks: rows(c.Callbacks), Approvals: rows(c.Approvals), Revoked: slices.Clone(c.Revoked),
		Released: slices.Clone(c.Released),
	}
	return s
}

func rows[K comparable, V any](in map[K]*V) map[K]*V {
	out := make(map[K]*V, len(in))
	for key, row := range in {
		out[key] = copied(row)
	}
	return out
}

// write applies changes, all of them or, if they break a constraint, none.
func (db *database) write(c *Changes) error {
	if err := db.constraints(c); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	db.writes++
	if c.Session != nil {
		db.session = copied(c.Session)
	}
	for id, t := range c.Tasks {
		db.tasks[id] = *t
		if t.Run > 0 {
			db.asked[ChildRun{id, t.Run}] = requester{by: t.Caller, call: t.Call, background: t.Background}
		}
	}
	for _, m := range c.Messages {
		db.messages[m.Task] = append(db.messages[m.Task], *m)
	}
	for _, r := range c.Runs {
		db.runs[ChildRun{r.Task, r.Run}] = *r
	}
	for _, e := range c.Events {
		db.events = append(db.events, *e)
		if cleared, ok := e.Kind.(InboxCleared); ok {
			for _, run := range cleared.News {
				db.dropped[run] = true
			}
		}
		run := ChildRun{e.Task, e.Run}
		if a, known := db.asked[run]; known && e.Kind == (Backgrounded{}) {
			a.background = true // by now the row may be that of the next run
			db.asked[run] = a
		}
	}
	for row, there := range c.Waits {
		if there {
			db.waits[row] = db.writes
		} else {
			delete(db.waits, row)
		}
	}
	put(db.calls, c.Calls)
	put(db.inbox, c.Inbox)
	put(db.timers, c.Timers)
	put(db.ready, c.Ready)
	put(db.attempts, c.Attempts)
	put(db.approvals, c.Approvals)
	put(db.callbacks, c.Callbacks)
	return nil
}

func put[K comparable, V any](rows map[K]V, changes map[K]*V) {
	for key, row := range changes {
		if row == nil {
			delete(rows, key)
		} else {
			rows[key] = *row
		}
	}
}

// constraints reports what a schema would refuse: what is immutable is written
// once, and every row belongs to one that is there.
func (db *database) constraints(c *Changes) error {
	var errs []error
	for i, e := range c.Events {
		if want := int64(len(db.events) + i + 1); e.Seq != want {
			errs = append(errs, fmt.Errorf("event %d where %d is next", e.Seq, want))
		}
	}
	if len(c.Events) > 0 && c.Session == nil {
		errs = append(errs, errors.New("there are events, but the session is unchanged"))
	}
	next := map[TaskID]int{}
	for _, m := range c.Messages {
		if next[m.Task] == 0 {
			next[m.Task] = len(db.messages[m.Task]) + 1
			if t := c.Tasks[m.Task]; t != nil {
				next[m.Task] = len(db.messages[m.Task]) + t.Base.First()
			}
		}
		if m.Ordinal != next[m.Task] {
			errs = append(errs, fmt.Errorf("message %d of task %s where %d is next", m.Ordinal, m.Task, next[m.Task]))
		}
		next[m.Task]++
		if c.Tasks[m.Task] == nil {
			errs = append(errs, fmt.Errorf("task %s has a new message, but is unchanged", m.Task))
		}
	}
	for _, r := range c.Runs {
		if _, there := db.runs[ChildRun{r.Task, r.Run}]; there {
			errs = append(errs, fmt.Errorf("run %d of task %s ends twice", r.Run, r.Task))
		}
	}
	for key, call := range c.Calls {
		if db.calls[key].State == CallClosed && *call != db.calls[key] {
			errs = append(errs, fmt.Errorf("closed call %v changes", key))
		}
	}
	for id, t := range c.Tasks {
		if t == nil || t.ID != id {
			errs = append(errs, fmt.Errorf("the row of task %s goes or names another", id))
		}
	}
	return errors.Join(errs...)
}

func callsOf(v *View) map[TaskID]map[CallRef]*Call {
	all := map[TaskID]map[CallRef]*Call{}
	for id, calls := range v.calls {
		all[id] = rows(calls)
	}
	return all
}
