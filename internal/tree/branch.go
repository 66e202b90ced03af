package tree

// BaseKind is how a conversation continues from another one.
type BaseKind uint8

// The kinds of bases. Their numbers are stored.
const (
	BaseNone   BaseKind = iota // it does not continue from another one
	BaseApart                  // it is a branch of the message, but sees nothing before its own messages
	BaseBranch                 // it sees everything up to the message
	BaseFork                   // the same, and is then told that it is a fork
	BaseCall                   // a fork made by a call: of the message it sees only that call
)

// Base is a message of another task that a conversation continues from. The base's messages are
// referenced, not copied. They never change, so what is seen of them stays the same, however the
// other task continues.
//
// Ordinals continue after those of the base. A fork leaves one ordinal free, for the message that
// tells it that it is a fork.
type Base struct {
	Kind    BaseKind
	Task    TaskID
	Message int // the ordinal of the last message that is seen; 0: none
	Block   int // of BaseCall: the call's block in the message
}

// First is the ordinal of the conversation's first own message.
func (b Base) First() int {
	switch b.Kind {
	case BaseBranch:
		return b.Message + 1
	case BaseFork, BaseCall:
		return b.Message + 2
	}
	return 1
}

// Inherits reports whether any message of the base is seen.
func (b Base) Inherits() bool { return b.Kind >= BaseBranch }

// continueFrom makes a conversation without messages continue from a base.
func (t *Task) continueFrom(b Base) { t.Base, t.NextOrdinal = b, b.First() }

// forkOf is the base of a fork of a task's whole conversation so far, without a last message whose
// calls are open.
func forkOf(t *Task) Base {
	last := t.NextOrdinal - 1
	if t.OpenMessage > 0 {
		last = t.OpenMessage - 1
	}
	return Base{Kind: BaseFork, Task: t.ID, Message: last}
}

// forkAt is the base of a fork made by a call.
func forkAt(t *Task, call CallRef) Base {
	return Base{Kind: BaseCall, Task: t.ID, Message: call.Message, Block: call.Block}
}

// CreateBranch lets a person continue from a message of a task, with everything up to it, or with
// only the agent. The task itself stays as it is. The branch is like a root: it has one run per
// turn, and nobody waits for it. Answer: [Branched].
type CreateBranch struct {
	Task  TaskID  // zero: the root
	At    Message // the stored message, which never changes
	Agent *Agent  // as pinned by the task
	Apart bool    // it sees nothing before its own messages

	Description string
	Message     []Block // starts the first run; empty: none yet
	Again       bool    // starts the first run without a message: the model answers again, for the same external source
	Trace       Trace   // the parent of the first run; zero: a trace of its own
	Select      bool    // makes the branch the current one, see [SelectBranch]
}

// Branched is the branch that was made.
type Branched struct{ Task TaskID }

// SelectBranch makes a branch, or the root, the current task, to which messages without a task go.
// Answer: [DoneTo].
type SelectBranch struct{ Task TaskID } // zero: the root

func (Branched) isAnswer() {}

// CurrentTask is the task that messages without a task go to.
func (s *Session) CurrentTask() TaskID {
	if s.Current.IsZero() {
		return s.Root
	}
	return s.Current
}

// OrRoot gives the task that a client means: the zero id is the root. Without a session, as long as
// a command still asks for its rows, the id stays as it is.
func (s *Session) OrRoot(id TaskID) TaskID {
	if id.IsZero() && s != nil {
		return s.Root
	}
	return id
}

// OrCurrent is OrRoot where the zero id is the current task.
func (s *Session) OrCurrent(id TaskID) TaskID {
	if id.IsZero() && s != nil {
		return s.CurrentTask()
	}
	return id
}

func (c CreateBranch) needs(n *needs) { n.task(n.view.session.OrRoot(c.Task)) }

func (c CreateBranch) decide(d *decision) (Answer, error) {
	from, err := d.task(d.session().OrRoot(c.Task))
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

// base finds the base of the branch, and the message there.
func (c CreateBranch) base(from *Task) (Base, MessageID, error) {
	at := c.At
	if at.Task != from.ID || at.Ordinal < from.Base.First() || at.Ordinal >= from.NextOrdinal {
		return Base{}, MessageID{}, ErrNoMessage.With("task %s has no message %s of its own", from.ID, at.ID)
	}
	if c.Apart {
		if c.Again {
			return Base{}, MessageID{}, ErrBadInput.With("a branch without context has no message to answer again")
		}
		return Base{Kind: BaseApart, Task: from.ID, Message: at.Ordinal}, MessageID{}, nil
	}
	base, head := Base{Kind: BaseBranch, Task: from.ID, Message: at.Ordinal}, at.ID
	if at.MakesCalls() || c.Again && at.Role == RoleAssistant {
		base.Message, head = at.Ordinal-1, at.Parent
	}
	if base.Message == 0 && c.Again {
		return Base{}, MessageID{}, ErrBadInput.With("there is no message before message %d that could be answered again", at.Ordinal)
	}
	return base, head, nil
}

// answeredFor is the external source of the run whose answer is given again. Messages of earlier
// releases do not record it; for the task's last run it is known anyway.
func (c CreateBranch) answeredFor(from *Task) string {
	if c.At.Source == "" && c.At.Run == from.Run {
		return from.Source
	}
	return c.At.Source
}

// MakesCalls reports whether the message opens calls. A conversation cannot continue from it
// without their results, which come after it.
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
		return ErrBadInput.With("a branch that answers a message again takes no new message")
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

func (c SelectBranch) needs(n *needs) { n.task(n.view.session.OrRoot(c.Task)) }

func (c SelectBranch) decide(d *decision) (Answer, error) {
	s := d.session()
	t, err := d.task(s.OrRoot(c.Task))
	switch {
	case err != nil:
		return nil, err
	case !t.Parent.IsZero():
		return nil, ErrNotABranch.With("task %s is a sub-agent", t.ID)
	case s.CurrentTask() == t.ID:
		return DoneTo{t.ID}, nil
	}
	d.selectTask(t)
	return DoneTo{t.ID}, nil
}

// selectTask makes a task the current one.
func (d *decision) selectTask(t *Task) {
	d.session().Current = t.ID
	d.emitOutsideRun(t, BranchSelected{})
}
