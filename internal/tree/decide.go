package tree

import (
	"fmt"
	"time"
)

// Command is a request to change a session. Its types are in the files named after what they are
// about.
type Command interface {
	// needs asks for all rows that decide reads. Each step of needs asks for what the decision's
	// step of the same name reads, and stands next to that in the code.
	needs(n *needs)
	// decide checks everything, and then changes the view. It returns an error only before the
	// first change.
	decide(d *decision) (Answer, error)
}

// Answer is the result of a command. Each command documents its type.
type Answer interface{ isAnswer() }

// KeptAnswer lists the answers of commands with an idempotency key. The store keeps them for a
// repeat, so each has a field in its storedAnswer too.
type KeptAnswer interface {
	Answer
	Created | Sent | Spawned | Branched
}

// Env is everything that a decision takes from outside.
type Env struct {
	Now     time.Time
	NewID   func() [16]byte // a fresh UUIDv7
	Replica string          // the replica that decides

	SkipMetrics bool // leave [Changes.Phases] and [Changes.SpawnOutcomes] empty
}

// Decide applies one command to a view that has all rows the command needs. An error wraps one of
// the named errors, and leaves the view unchanged.
func Decide(v *View, env Env, cmd Command) (Answer, error) {
	if missing := v.Missing(cmd); !missing.Empty() {
		return nil, fmt.Errorf("deciding %T: the view misses %+v", cmd, missing)
	}
	d := &decision{view: v, env: env}
	if err := v.mayDecide(cmd); err != nil {
		return nil, err
	}
	return cmd.decide(d)
}

// decision is one command being decided.
type decision struct {
	view *View
	env  Env

	muted map[TaskID]bool // tasks that get no news of the ends of their background children
}

func (d *decision) session() *Session { return d.view.session }

// task gives a task, or the refusal if it does not exist.
func (d *decision) task(id TaskID) (*Task, error) {
	if t := d.view.task(id); t != nil {
		return t, nil
	}
	return nil, ErrNoTask
}

// emit appends an event about a task to the session's log.
func (d *decision) emit(t *Task, kind EventKind) {
	s := d.session()
	e := &Event{Seq: s.NextSeq, Time: d.env.Now, Task: t.ID, Run: t.Run, Kind: kind}
	s.NextSeq++
	s.UpdatedAt = d.env.Now
	d.view.changes.Session = s
	d.view.changes.Events = append(d.view.changes.Events, e)
}

// append adds a message to a task's transcript. The caller has set its content.
func (d *decision) append(t *Task, m *Message) *Message {
	if m.ID.IsZero() {
		m.ID = MessageID(d.env.NewID())
	}
	m.Task, m.Parent, m.Ordinal, m.Run, m.CreatedAt = t.ID, t.Head, t.NextOrdinal, t.Run, d.env.Now
	m.Source = t.Source
	t.Head = m.ID
	if m.Role == RoleAssistant {
		t.LastAnswer = m.Ordinal
	}
	t.NextOrdinal++
	t.Usage = t.Usage.Add(m.Usage)
	t.RunUsage = t.RunUsage.Add(m.Usage)
	s := d.session()
	s.Usage = s.Usage.Add(m.Usage)
	if m.Usage.Total() > 0 {
		s.updateEstimate(m.Usage)
	}
	d.view.touchTask(t)
	d.view.changes.Messages = append(d.view.changes.Messages, m)
	event := MessageAppended{Message: m.ID, Ordinal: m.Ordinal, Role: m.Role, Usage: m.Usage, News: m.News, UpTo: m.UpTo}
	for i, b := range m.Blocks {
		if use, ok := b.(ToolUse); ok {
			event.Calls = append(event.Calls, OpenedCall{Block: i, Tool: use.Name})
		}
	}
	if len(event.Calls) > 0 {
		event.Activity = t.Activity
	}
	d.emit(t, event)
	return m
}
