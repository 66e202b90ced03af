package tree

// BaseKind says how a conversation goes on from another's.
type BaseKind uint8

// The kinds of bases. Their numbers are stored.
const (
	BaseNone   BaseKind = iota // it begins with itself
	BaseApart                  // it hangs off the message, but sees nothing of what came before
	BaseBranch                 // it sees everything up to the message, and goes on from there
	BaseFork                   // the same, and is then told what it is
	BaseCall                   // a fork by a call: of the message it sees that call alone
)

// Base is a message of another task that a conversation goes on from. The base's
// messages are referred to, not copied: they never change, so what is seen of
// them does not either, however the base goes on.
//
// Ordinals go on where those of the base end. A fork leaves one free, for the
// message that tells it what it is.
type Base struct {
	Kind    BaseKind
	Task    TaskID
	Message int // its ordinal: the last one that is seen; 0: none
	Block   int // of BaseCall: the call's block in the message
}

// First is the ordinal of a conversation's first message of its own.
func (b Base) First() int {
	switch b.Kind {
	case BaseBranch:
		return b.Message + 1
	case BaseFork, BaseCall:
		return b.Message + 2
	}
	return 1
}

// Inherits reports whether something of the base is seen.
func (b Base) Inherits() bool { return b.Kind >= BaseBranch }

// continueFrom makes a conversation that has no message yet go on from a base.
func (t *Task) continueFrom(b Base) { t.Base, t.NextOrdinal = b, b.First() }

// forkOf is the base of a fork of all that a task has said and done so far; what
// has calls without a result is not part of it.
func forkOf(t *Task) Base {
	last := t.NextOrdinal - 1
	if t.OpenMessage > 0 {
		last = t.OpenMessage - 1
	}
	return Base{Kind: BaseFork, Task: t.ID, Message: last}
}

// forkAt is the base of a fork by a call.
func forkAt(t *Task, call CallRef) Base {
	return Base{Kind: BaseCall, Task: t.ID, Message: call.Message, Block: call.Block}
}

// CreateBranch lets a person go on from a message of a task: with all up to it,
// or with nothing but the agent. The task that it starts from stays as it is.
// The branch is like a root: it has a run per turn, and nobody waits for it.
// Answer: [Branched].
type CreateBranch struct {
	Task  TaskID  // zero: the root
	At    Message // the message as it is stored, which never changes
	Agent *Agent  // as the task has pinned it
	Apart bool    // sees nothing of what came before

	Description string
	Message     []Block // starts the first run; empty: none yet
	Again       bool    // starts the first run without a message: the model answers once more, on behalf of the same
	Trace       Trace   // where the first run hangs; zero: in a trace of its own
	Select      bool    // makes it the current one, as [SelectBranch] does
}

// Branched is the branch that was made.
type Branched struct{ Task TaskID }

// SelectBranch makes a branch, or the root, the conversation that messages go to
// which name no task. Answer: [Done].
type SelectBranch struct{ Task TaskID } // zero: the root

func (Branched) isAnswer() {}

// CurrentTask is the task that a message without a task goes to.
func (s *Session) CurrentTask() TaskID {
	if s.Current.IsZero() {
		return s.Root
	}
	return s.Current
}

func (s *Session) orRoot(id TaskID) TaskID {
	if id.IsZero() && s != nil {
		return s.Root
	}
	return id
}

func (c CreateBranch) needs(n *needs) { n.task(n.view.session.orRoot(c.Task)) }

func (c CreateBranch) decide(d *decision) (Answer, error) {
	from, err := d.task(d.session().orRoot(c.Task))
	if err != nil {
		return nil, err
	}
	if err := from.MustBeAgent(); err != nil {
		return nil, err
	}
	base, head, err := c.base(from)
	if err != nil {
		return nil, err
	}
	if err := d.mayBranch(c); err != nil {
		return nil, err
	}
	t := d.newTask(TaskID(d.env.NewID()), nil, *c.Agent, from.Model, c.Description)
	t.Branch, t.Head, t.Pin = BranchHuman, head, from.Pin
	t.continueFrom(base)
	t.inheritAuthority(from)
	t.Worktrees = from.Worktrees
	opened := BranchOpened{Base: base, Head: head, Agent: t.Agent, Description: t.Description}
	d.emitOutsideRun(t, opened)
	switch {
	case len(c.Message) > 0:
		d.accept(t, requester{trace: c.Trace})
		d.append(t, &Message{Role: RoleUser, Blocks: c.Message})
	case c.Again:
		d.accept(t, requester{source: c.answeredFor(from), trace: c.Trace})
	}
	if c.Select {
		d.selectTask(t)
	}
	return Branched{Task: t.ID}, nil
}

// base finds where the branch goes on from, and the message there.
func (c CreateBranch) base(from *Task) (Base, MessageID, error) {
	at := c.At
	if at.Task != from.ID || at.Ordinal < from.Base.First() || at.Ordinal >= from.NextOrdinal {
		return Base{}, MessageID{}, ErrNoMessage.With("task %s has no message %s of its own", from.ID, at.ID)
	}
	if c.Apart {
		if c.Again {
			return Base{}, MessageID{}, ErrBadInput.With("a branch without context has nothing to answer")
		}
		return Base{Kind: BaseApart, Task: from.ID, Message: at.Ordinal}, MessageID{}, nil
	}
	base, head := Base{Kind: BaseBranch, Task: from.ID, Message: at.Ordinal}, at.ID
	if at.MakesCalls() || c.Again && at.Role == RoleAssistant {
		base.Message, head = at.Ordinal-1, at.Parent
	}
	if base.Message == 0 && c.Again {
		return Base{}, MessageID{}, ErrBadInput.With("there is nothing before message %d to answer", at.Ordinal)
	}
	return base, head, nil
}

// answeredFor is who outside the run was on behalf of that has answered what is answered
// again. A message of a release before does not say so; of the task's last run it is known.
func (c CreateBranch) answeredFor(from *Task) string {
	if c.At.Source == "" && c.At.Run == from.Run {
		return from.Source
	}
	return c.At.Source
}

// MakesCalls reports whether the message opens calls: without their results, which
// come after it, nothing can go on from it.
func (m *Message) MakesCalls() bool {
	for _, b := range m.Blocks {
		if _, ok := b.(ToolUse); ok {
			return true
		}
	}
	return false
}

func (d *decision) mayBranch(c CreateBranch) error {
	limits := d.session().Limits
	switch {
	case c.Agent == nil:
		return ErrNoAgent
	case c.Again && len(c.Message) > 0:
		return ErrBadInput.With("an answer given again takes no message")
	case d.session().Total+1 > limits.Total:
		return ErrTooMany.With("%d tasks of one session", limits.Total)
	}
	if err := checkName("the description", c.Description); err != nil {
		return err
	}
	if c.Again || len(c.Message) > 0 {
		if err := d.mayQueue(); err != nil {
			return err
		}
	}
	return limits.checkBlocks(c.Message)
}

func (c SelectBranch) needs(n *needs) { n.task(n.view.session.orRoot(c.Task)) }

func (c SelectBranch) decide(d *decision) (Answer, error) {
	s := d.session()
	t, err := d.task(s.orRoot(c.Task))
	switch {
	case err != nil:
		return nil, err
	case !t.Parent.IsZero():
		return nil, ErrNotABranch.With("task %s is a sub-agent", t.ID)
	case s.CurrentTask() == t.ID:
		return Done{}, nil
	}
	d.selectTask(t)
	return Done{}, nil
}

// selectTask makes a task the current one.
func (d *decision) selectTask(t *Task) {
	d.session().Current = t.ID
	d.emitOutsideRun(t, BranchSelected{})
}
