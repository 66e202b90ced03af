package tree

import (
	"errors"
	"fmt"
)

// heard is a task as a watcher knows it who has read nothing but the events.
type heard struct {
	Parent      TaskID
	Kind        Kind
	Base        Base
	Depth       int
	Agent       string
	Description string
	Background  bool

	Run    int
	State  State
	Reason Reason
	Detail string
	Epoch  int64
	Worker string
	Wait   WaitKind

	Messages int
	Head     MessageID
	Open     int
	Usage    Usage
	RunUsage Usage
	Tools    int
	Children int
}

// replay rebuilds the tree from its events alone. It reports a cap that any
// prefix of the log breaks.
func replay(events []Event, limits Limits) (map[TaskID]*heard, error) {
	tree := map[TaskID]*heard{}
	var errs []error
	running := 0
	for _, e := range events {
		t := tree[e.Task]
		if t == nil {
			t = &heard{State: StateNew}
			tree[e.Task] = t
		}
		before := t.State
		t.hear(e, tree)
		shell := t.Kind == KindShell // it takes no place, and may be below the cap on depth
		if before == StateRunning && !shell {
			running--
		}
		if t.State == StateRunning && !shell {
			running++
		}
		if running > limits.Running || len(tree) > limits.Total || !shell && t.Depth > limits.Depth || t.Children > limits.Width {
			errs = append(errs, fmt.Errorf("event %d breaks a cap: %d run, %d tasks, depth %d, %d children",
				e.Seq, running, len(tree), t.Depth, t.Children))
		}
	}
	return tree, errors.Join(errs...)
}

// hear takes in one event about the task.
func (t *heard) hear(e Event, tree map[TaskID]*heard) {
	switch k := e.Kind.(type) {
	case SessionOpened:
		t.Agent, t.Kind = k.Agent, KindAgent
	case BranchOpened:
		t.Kind = KindAgent
		t.Base, t.Head, t.Messages, t.Agent, t.Description = k.Base, k.Head, k.Base.First()-1, k.Agent, k.Description
	case Imported:
		t.Messages, t.Head = k.Messages, k.Head
	case Started:
		if parent := tree[k.Parent]; parent != nil && e.Run == 1 {
			parent.Children++
		}
		if k.Base.Kind != BaseNone {
			t.Base = k.Base
		}
		t.Parent, t.Depth, t.Agent, t.Description, t.Background = k.Parent, k.Depth, k.Agent, k.Description, k.Background
		t.Run, t.State, t.Reason, t.Detail = e.Run, StatePending, ReasonUnspecified, ""
		t.RunUsage, t.Kind = Usage{}, k.Kind
		t.Epoch++
	case Dispatched:
		t.State, t.Epoch, t.Worker = StateRunning, k.Epoch, k.Worker
	case MessageAppended:
		t.Messages, t.Head = k.Ordinal, k.Message
		t.Usage, t.RunUsage = t.Usage.Add(k.Usage), t.RunUsage.Add(k.Usage)
		t.Open += len(k.Calls)
		t.Tools += len(k.Calls)
	case CallResolved:
		t.Open--
	case Parked:
		t.State, t.Wait, t.Worker = StateWaiting, k.On.Kind, ""
	case Readied:
		t.State, t.Epoch, t.Wait, t.Worker = StatePending, k.Epoch, WaitNone, ""
	case Backgrounded:
		t.Background = true
	case Result:
		t.State, t.Reason, t.Detail, t.Wait, t.Worker = k.State, k.Reason, k.Detail, WaitNone, ""
	}
}

// checkReplay compares the rows with the tree that the events alone tell of.
func (db *database) checkReplay() error {
	if db.session == nil {
		return nil
	}
	tree, err := replay(db.events, db.session.Limits)
	if err != nil {
		return err
	}
	if len(tree) != len(db.tasks) {
		return fmt.Errorf("the events tell of %d tasks, there are %d", len(tree), len(db.tasks))
	}
	for id, t := range db.tasks {
		row := heard{
			Parent: t.Parent, Kind: t.Kind, Base: t.Base, Depth: t.Depth, Agent: t.Agent, Description: t.Description, Background: t.Background,
			Run: t.Run, State: t.State, Reason: t.Reason, Detail: t.Detail, Epoch: t.Epoch, Worker: t.Worker, Wait: t.Wait.Kind,
			Messages: t.NextOrdinal - 1, Head: t.Head, Open: t.OpenCalls,
			Usage: t.Usage, RunUsage: t.RunUsage, Tools: t.ToolUses, Children: t.Children,
		}
		if events := tree[id]; events == nil || *events != row {
			return fmt.Errorf("task %s is\n%+v, its events tell of\n%+v", id, row, events)
		}
	}
	return nil
}
