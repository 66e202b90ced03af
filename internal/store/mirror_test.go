package store

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-run/coppice/internal/tree"
)

// mirrored is a mirror and a clock.
type mirrored struct {
	*mirror
	t   *testing.T
	now time.Time
}

func newMirrored(t *testing.T) *mirrored {
	return &mirrored{newMirror(true, false), t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// run is a ready run, with its place in the queue.
func run(n byte, epoch int64) Ready {
	return Ready{Session: tree.SessionID{1}, Ready: tree.Ready{Task: tree.TaskID{n}, Epoch: epoch}, fairTag: int64(n)}
}

// reads reads the table while the commits arrive.
func (m *mirrored) reads(rows []Ready, meanwhile func()) {
	m.t.Helper()
	if due, _ := m.beginLoad(m.now); !due {
		m.t.Fatal("the table is not read")
	}
	meanwhile()
	m.load(m.now, rows)
}

// expects compares what is picked with the given tasks, and their epochs.
func (m *mirrored) expects(want map[byte]int64) {
	m.t.Helper()
	taken, _, _, ok := m.take(m.now, 1000, time.Minute)
	got := map[byte]int64{}
	for _, r := range taken {
		got[r.Task[0]] = r.Epoch
	}
	if !ok || !maps.Equal(got, want) {
		m.t.Errorf("picked are %v, %v, not %v", got, ok, want)
	}
}

// TestMirrorLoad: what commits report while the table is read is newer than the rows that are read.
func TestMirrorLoad(t *testing.T) {
	m := newMirrored(t)
	m.committed(m.now, nil, []Ready{run(1, 1), run(2, 1), run(3, 1), run(4, 1)}, false)
	if _, _, _, ok := m.take(m.now, 1, time.Minute); ok {
		t.Error("runs are picked before the table was read")
	}
	m.reads([]Ready{run(2, 1), run(3, 1), run(4, 1), run(6, 1), run(7, 1)}, func() { // 1 went unnoticed
		m.committed(m.now, []tree.TaskID{{2}, {3}, {7}}, nil, false)
		m.committed(m.now, nil, []Ready{run(3, 2), run(5, 1)}, false)
	})
	m.expects(map[byte]int64{3: 2, 4: 1, 5: 1, 6: 1})
}

// TestMirrorTurns: runs are picked in the order of their tags, whatever was picked or has gone in
// between, and again once the lease has expired.
func TestMirrorTurns(t *testing.T) {
	m := newMirrored(t)
	m.reads(nil, func() {})
	m.committed(m.now, nil, []Ready{run(5, 1), run(2, 1), run(4, 1), run(1, 1), run(3, 1)}, false)
	pick := func(room int) (tasks []byte) {
		taken, _, _, _ := m.take(m.now, room, time.Minute)
		for _, r := range taken {
			tasks = append(tasks, r.Task[0])
		}
		return tasks
	}
	for _, step := range []struct {
		gone   byte
		room   int
		later  time.Duration
		picked []byte
	}{
		{room: 2, picked: []byte{1, 2}},
		{room: 2},                             // both are in force
		{gone: 3, room: 3, picked: []byte{4}}, // it was not picked
		{gone: 1, room: 3, picked: []byte{5}}, // it was claimed
		{later: time.Minute, room: 9, picked: []byte{2, 4, 5}},
		{gone: 4, room: 9, later: time.Minute / 2}, // not yet
	} {
		m.now = m.now.Add(step.later)
		m.committed(m.now, []tree.TaskID{{step.gone}}, nil, false)
		if got := pick(step.room); !slices.Equal(got, step.picked) {
			t.Errorf("after %d had gone, %v were picked, not %v", step.gone, got, step.picked)
		}
	}
}

// TestMirrorForgets: of runs with precedence that have gone before they were picked, such as those of
// a tree that was canceled, nothing is kept.
func TestMirrorForgets(t *testing.T) {
	m := newMirrored(t)
	m.reads(nil, func() {})
	first, second := run(1, 1), run(2, 1)
	first.Precedence, second.Precedence, second.Session = 1, 1, tree.SessionID{2}
	m.committed(m.now, nil, []Ready{first, second}, false)
	m.committed(m.now, []tree.TaskID{first.Task}, nil, false)
	m.now = m.now.Add(mirrorFor)
	m.reads([]Ready{second}, func() {})
	if _, kept := m.lines[first.line()]; kept || len(m.lines) != 1 {
		t.Errorf("lines of %d sessions are kept, also that of a run that has gone: %v", len(m.lines), kept)
	}
	m.expects(map[byte]int64{2: 1})
	if len(m.lines)+len(m.queues) != 0 {
		t.Errorf("%d lines and %d queues are kept without a run that waits", len(m.lines), len(m.queues))
	}
}

// TestMirrorIncomplete: runs are picked from the table once they may be held back, while another
// replica is there, and if a commit may have gone unnoticed.
func TestMirrorIncomplete(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*mirrored)
		read    bool // the table is read at once
	}{
		"held back":       {happens: func(m *mirrored) { m.committed(m.now, nil, nil, true) }},
		"too many":        {happens: func(m *mirrored) { m.committed(m.now, nil, manyReady(maxMirrored), false) }},
		"released":        {happens: func(m *mirrored) { m.release(m.now, tree.TaskID{1}, 1) }},
		"another replica": {happens: func(m *mirrored) { m.setAlone(false) }},
		"a commit failed": {happens: func(m *mirrored) { m.suspend(time.Time{}) }, read: true},
		"held back meanwhile": {happens: func(m *mirrored) {
			m.now = m.now.Add(mirrorFor)
			m.reads(nil, func() { m.committed(m.now, nil, nil, true) })
		}},
		"not read": {happens: func(m *mirrored) {
			m.now = m.now.Add(mirrorFor)
			m.beginLoad(m.now)
			m.suspend(m.now.Add(mirrorPause))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirrored(t)
			m.reads([]Ready{run(1, 1)}, func() {})
			test.happens(m)
			if _, _, _, ok := m.take(m.now, 1, time.Minute); ok || m.isComplete() {
				t.Error("runs are picked from the mirror")
			}
			if read, _ := m.beginLoad(m.now); read != test.read {
				t.Errorf("that the table is read at once is %v", read)
			}
		})
	}
}

func manyReady(n int) (ready []Ready) {
	for i := range n {
		r := run(2, 1)
		r.Task = tree.TaskID{2, byte(i >> 16), byte(i >> 8), byte(i)}
		ready = append(ready, r)
	}
	return ready
}

// TestMirrorKeepsAll: whatever happens, each run that is ready is picked, once within its lease, and
// no other.
func TestMirrorKeepsAll(t *testing.T) {
	const lease = time.Minute
	rapid.Check(t, func(t *rapid.T) {
		m := &mirrored{mirror: newMirror(true, false), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		table := map[tree.TaskID]Ready{}
		pickedAt := map[tree.TaskID]time.Time{}
		unlisted := map[tree.TaskID]bool{} // the runs in table that have no row
		last := 0
		commit := func() {
			var gone []tree.TaskID
			for _, task := range slices.SortedFunc(maps.Keys(table), byAge) {
				if rapid.IntRange(0, 3).Draw(t, "claimed") == 0 {
					gone = append(gone, task)
				}
			}
			var ready []Ready
			for range rapid.IntRange(0, 5).Draw(t, "ready") {
				last++
				r := run(0, 1)
				r.Task, r.Session[0] = tree.TaskID{byte(last >> 8), byte(last)}, rapid.Byte().Draw(t, "session")%4
				r.tenant, r.Priority = string('a'+rune(r.Session[0]%2)), rapid.IntRange(0, 1).Draw(t, "priority")
				r.Precedence, r.fairTag = rapid.IntRange(0, 2).Draw(t, "precedence"), rapid.Int64Range(1, 9).Draw(t, "tag")
				r.AnnouncedOnCommit = m.isComplete() && rapid.Bool().Draw(t, "announced")
				if r.AnnouncedOnCommit {
					pickedAt[r.Task] = m.now
				}
				if r.unlisted = m.isComplete() && rapid.Bool().Draw(t, "unlisted"); r.unlisted {
					unlisted[r.Task] = true
				}
				ready = append(ready, r)
			}
			for _, task := range gone {
				delete(table, task)
				delete(pickedAt, task)
				delete(unlisted, task)
			}
			for _, r := range ready {
				table[r.Task] = r
			}
			m.committed(m.now, gone, ready, rapid.IntRange(0, 9).Draw(t, "holds back") == 0)
		}
		rowsFor := func(complete bool) (rows []Ready) {
			if !complete {
				clear(unlisted)
			}
			for task, r := range table {
				if !unlisted[task] {
					rows = append(rows, r)
				}
			}
			return rows
		}
		load := func() {
			if due, complete := m.beginLoad(m.now); due {
				rows := rowsFor(complete)
				if rapid.Bool().Draw(t, "meanwhile") {
					commit()
				}
				m.load(m.now, rows)
			}
			if m.isComplete() && len(m.runs) != len(table) {
				t.Fatalf("the mirror has %d runs, %d are ready", len(m.runs), len(table))
			}
		}
		pick := func(room int) {
			taken, _, _, _ := m.take(m.now, room, lease)
			for _, r := range taken {
				at, before := pickedAt[r.Task]
				if _, ready := table[r.Task]; !ready || before && m.now.Sub(at) < lease || before != r.Again {
					t.Fatalf("%+v was picked; that it was picked before is %v", r, before)
				}
				pickedAt[r.Task] = m.now
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(*rapid.T) { commit() },
			"load":   func(*rapid.T) { load() },
			"pick":   func(t *rapid.T) { pick(rapid.IntRange(1, 8).Draw(t, "room")) },
			"later": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			},
			"fails":  func(*rapid.T) { m.suspend(time.Time{}) },
			"listed": func(*rapid.T) { clear(unlisted) },
		})
		m.suspend(time.Time{})
		due, complete := m.beginLoad(m.now)
		if !due || complete {
			t.Fatalf("that the table is read is %v, that it need not have all rows %v", due, complete)
		}
		m.load(m.now, rowsFor(complete))
		pick(1 << 20)
		for task := range table {
			if at, ever := pickedAt[task]; !ever || m.now.Sub(at) >= lease {
				t.Errorf("%s is ready and not picked", task)
			}
		}
	})
}
