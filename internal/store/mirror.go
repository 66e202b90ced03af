package store

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// mirror is the table of ready runs in memory. While it is complete, runs are picked from it:
// nothing is read from the table, and nothing is marked in it. It can be complete only while no
// other replica writes to the database, there are no caps, and no run is held back. A run that was
// picked from it and is lost with the process is picked at once by the next one.
//
// Commits change it after they are stored. So it may still lack what was just stored, and contain
// what was just claimed; another claim of such a run is refused.
type mirror struct {
	mu       sync.Mutex
	disabled bool // there are caps
	alone    bool // no other replica is alive
	complete bool
	loadFrom time.Time            // the table need not be read before
	changed  map[tree.TaskID]bool // the runs that commits have changed since the table is being read; nil: it is not
	runs     map[tree.TaskID]*mirroredRun
	queues   map[queue]*runHeap       // of the runs that wait
	lines    map[sessionLine]*runHeap // those of them that have precedence
	picked   []pickedRun              // the oldest first, while complete; some have gone or were picked again
	inForce  int                      // runs that are picked and not claimed yet
	turns    *tenantTurns
	turnFrom time.Time // the virtual time need not be stored before
}

// mirroredRun is a ready run.
type mirroredRun struct {
	Ready
	pickedAt time.Time // zero: it waits
	queued   [2]bool   // by heapOrder: a heap has it, with its current tag
}

// pickedRun is a run and when it was picked.
type pickedRun struct {
	*mirroredRun
	at time.Time
}

const (
	// maxMirrored is the number of ready runs above which they are picked from the table.
	maxMirrored = 20_000
	// mirrorFor is how long the mirror is relied on while there are ready runs, and mirrorEmptyFor
	// while there are none. That bounds how long a row goes unnoticed that no commit has reported.
	mirrorFor      = 10 * time.Second
	mirrorEmptyFor = time.Second
	// mirrorPause is how long runs are picked from the table before it is read again.
	mirrorPause = time.Second
	// turnEvery is how often the virtual time is stored. After a crash, a session that was idle
	// gains at most that on the others.
	turnEvery = time.Second
)

func newMirror(alone, disabled bool) *mirror {
	m := &mirror{disabled: disabled, alone: alone && !disabled, turns: newTenantTurns()}
	m.clear()
	return m
}

// clear forgets all runs.
func (m *mirror) clear() {
	m.stop(time.Time{})
	m.inForce = 0
	m.runs, m.queues, m.lines = map[tree.TaskID]*mirroredRun{}, map[queue]*runHeap{}, map[sessionLine]*runHeap{}
}

// setAlone says whether this replica is the only one. If it is not any more, what it has picked is
// remembered until it is picked from the table.
func (m *mirror) setAlone(alone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	alone = alone && !m.disabled
	switch {
	case alone && !m.alone:
		m.clear()
	case !alone:
		m.stop(time.Time{})
	}
	m.alone = alone
}

// stop has runs picked from the table, which need not be read before the given time.
func (m *mirror) stop(loadFrom time.Time) {
	m.complete, m.picked, m.changed, m.loadFrom = false, nil, nil, loadFrom
}

// pause stops for a while.
func (m *mirror) pause(now time.Time) { m.stop(now.Add(mirrorPause)) }

// isComplete reports whether runs are picked from the mirror.
func (m *mirror) isComplete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.complete
}

// suspend stops until the given time: a commit may have been missed, or the mirror can't have the
// rows of the table.
func (m *mirror) suspend(until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop(until)
}

// release takes in that the session of a picked run can't run it yet.
func (m *mirror) release(now time.Time, task tree.TaskID, epoch int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if run := m.runs[task]; run != nil && run.Epoch == epoch {
		m.remove(task)
		m.pause(now)
	}
}

// committed takes in a commit: the runs that have gone, those that are ready now, and whether runs
// of a session have to be held back.
func (m *mirror) committed(now time.Time, gone []tree.TaskID, ready []Ready, holdsBack bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, task := range gone {
		m.change(task)
	}
	if !m.alone {
		return
	}
	for _, r := range ready {
		m.change(r.Task)
		switch {
		case r.announcedUntil == heldBack:
		case r.AnnouncedOnCommit:
			m.setPicked(m.add(r), now)
		default:
			m.push(m.add(r))
		}
	}
	if len(m.runs) > maxMirrored {
		m.clear()
		holdsBack = true
	}
	if holdsBack {
		m.pause(now)
	}
}

// add adds a run that is neither picked nor in a queue.
func (m *mirror) add(r Ready) *mirroredRun {
	r.announcedUntil, r.AnnouncedOnCommit = 0, false
	run := &mirroredRun{Ready: r}
	m.runs[r.Task] = run
	return run
}

// change removes a run that a commit has changed.
func (m *mirror) change(task tree.TaskID) {
	m.remove(task)
	if m.changed != nil {
		m.changed[task] = true
	}
}

func (m *mirror) remove(task tree.TaskID) {
	run := m.runs[task]
	if run == nil {
		return
	}
	m.unqueue(run)
	delete(m.runs, task)
	if !run.pickedAt.IsZero() {
		m.inForce--
	}
}

func (m *mirror) setPicked(run *mirroredRun, at time.Time) {
	if run.pickedAt.IsZero() {
		m.unqueue(run)
		m.inForce++
	}
	run.pickedAt = at
	if m.complete {
		m.picked = append(m.picked, pickedRun{run, at})
	}
}

// waiting reports whether there are runs that are not picked.
func (m *mirror) waiting() bool { return m.inForce < len(m.runs) }

// pickedFromTable takes in what was picked from the table. It marks the runs that had been picked
// from the mirror.
func (m *mirror) pickedFromTable(taken []Ready) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range taken {
		run := m.runs[r.Task]
		if run == nil {
			continue
		}
		taken[i].Again = r.Again || !run.pickedAt.IsZero()
		if !m.alone {
			m.remove(r.Task) // nobody else asks
		}
	}
}

// beginLoad reports whether the table has to be read, and whether the mirror has been complete until
// now. If it has to be read, the caller calls load or suspend.
func (m *mirror) beginLoad(now time.Time) (due, complete bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.alone || now.Before(m.loadFrom) {
		return false, m.complete
	}
	m.changed = map[tree.TaskID]bool{}
	return true, m.complete
}

// load takes in all rows of the table. What commits have reported since beginLoad is at least as
// new.
func (m *mirror) load(now time.Time, rows []Ready) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.changed
	if known == nil {
		return // stopped meanwhile
	}
	m.changed = nil
	for _, r := range rows {
		if !known[r.Task] {
			m.loadRow(now, r)
			known[r.Task] = true
		}
	}
	for task, run := range m.runs {
		if !known[task] && !run.unlisted {
			m.remove(task)
		}
	}
	// Picks read only the lines of sessions with runs, so nothing else removes these.
	maps.DeleteFunc(m.lines, func(_ sessionLine, h *runHeap) bool { return !h.hasQueued(byPrecedence) })
	m.complete, m.loadFrom, m.picked = true, now.Add(mirrorFor), nil
	if len(m.runs) == 0 {
		m.loadFrom = now.Add(mirrorEmptyFor)
	}
	for _, run := range m.runs {
		if !run.pickedAt.IsZero() {
			m.picked = append(m.picked, pickedRun{run, run.pickedAt})
		}
	}
	slices.SortFunc(m.picked, func(a, b pickedRun) int { return a.at.Compare(b.at) })
}

// loadRow takes in a row of the table. A run that is announced in it counts as picked now.
func (m *mirror) loadRow(now time.Time, r Ready) {
	announced := r.announcedUntil > now.UnixMicro()
	run := m.runs[r.Task]
	if run == nil || run.Epoch != r.Epoch {
		m.remove(r.Task)
		run = m.add(r)
	}
	run.unlisted = false
	if announced && run.pickedAt.IsZero() {
		m.setPicked(run, now)
	}
	m.push(run)
}
