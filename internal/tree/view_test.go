package tree

import (
	"strings"
	"testing"
)

func TestDecideWantsACompleteView(t *testing.T) {
	t.Parallel()
	db := newDatabase()
	if _, err := db.commit(CreateSession{ID: SessionID{1}, Agent: boss, Limits: DefaultLimits()}); err != nil {
		t.Fatal(err)
	}
	v := db.view()
	cmd := Send{Message: []Block{Text{Text: "Go."}}}
	if missing := v.Missing(cmd); len(missing.Tasks) != 1 || missing.Tasks[0] != v.Session().Root {
		t.Fatalf("the view misses %+v", missing)
	}
	_, err := Decide(v, db.env(), cmd)
	if err == nil || CodeOf(err) != CodeInternal || !strings.Contains(err.Error(), "misses") {
		t.Errorf("deciding on a view without the root: %v", err)
	}
	db.load(v, cmd)
	if _, err := Decide(v, db.env(), cmd); err != nil {
		t.Errorf("deciding on a complete view: %v", err)
	}
}

// TestReadingWhatWasNotAskedFor: a command whose needs are incomplete is a
// defect, and shows as one.
func TestReadingWhatWasNotAskedFor(t *testing.T) {
	t.Parallel()
	v := NewView(&Session{})
	v.PutTask(TaskID{1}, &Task{ID: TaskID{1}, OpenCalls: 1})
	for name, read := range map[string]func(){
		"a task":     func() { v.task(TaskID{2}) },
		"a call":     func() { v.call(TaskID{1}, CallRef{1, 0}) },
		"open calls": func() { v.openCalls(v.task(TaskID{1})) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s could be read", name)
				}
			}()
			read()
		}()
	}
}

// TestRowsArePutOnce: what commands have changed is not lost to a row that is
// loaded again.
func TestRowsArePutOnce(t *testing.T) {
	t.Parallel()
	v := NewView(&Session{})
	first := &Task{ID: TaskID{1}}
	v.PutTask(first.ID, first)
	v.PutTask(first.ID, &Task{ID: TaskID{1}})
	v.PutTask(TaskID{2}, nil)
	v.PutTask(TaskID{2}, &Task{ID: TaskID{2}})
	if v.task(first.ID) != first || v.task(TaskID{2}) != nil {
		t.Error("a task was put twice")
	}
	v.PutInbox(first.ID, []*InboxEntry{{}})
	v.PutInbox(first.ID, nil)
	v.PutWatchers(ChildRun{first.ID, 1}, []WaitRow{{}})
	v.PutWatchers(ChildRun{first.ID, 1}, nil)
	if len(v.inbox[first.ID]) != 1 || len(v.watchers[ChildRun{first.ID, 1}]) != 1 {
		t.Error("an inbox or waits were put twice")
	}
}
