package tree

import (
	"cmp"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/policy"
)

// CreateSession opens a session with its root. With a message it starts the root's first run.
// Answer: [Created].
type CreateSession struct {
	ID        SessionID
	Tenant    string
	Title     string // empty: the start of the message
	Agent     *Agent // nil: there is no agent of that name
	AgentName string
	Model     string
	Pin       ModelPin // the resolved model of the session, or else of the agent
	NoModel   string   // a named model that does not exist; empty: all exist
	Message   []Block  // empty: no first run yet
	Metadata  map[string]string
	Limits    Limits
	Budget    Budget
	History   []Message // imported messages that the root's conversation begins with

	Permissions policy.Layer     // the session's permissions
	Approvals   policy.Approvals // whether its sub-agents may ask; unspecified: as Limits says
	Source      string           // the external source that opened it; empty: none
	Trace       Trace            // the parent of the first run; zero: a trace of its own
	Workspace   string           // the directory that it shares with other sessions; empty: its own
	OnComplete  string           // URL to call when a run of the root has ended; empty: the agent's
	OnApproval  string           // URL to call when a call asks for approval; empty: none
}

// Created is the session that was opened.
type Created struct {
	Session SessionID
	Root    TaskID
}

// Send gives a task a user message. An ended task starts its next run with it; a run under way
// takes it in at its next boundary. Answer: [Sent].
type Send struct {
	Task      TaskID // zero: the current branch
	Message   []Block
	Interrupt bool   // brings a run to its boundary now, as far as that depends on its children and commands
	Source    string // the external source of the message; empty: none
	Trace     Trace  // the parent of a run that starts with it; zero: a trace of its own
}

// Sent says what was done with a message.
type Sent struct {
	Task   TaskID
	Run    int
	Queued bool
	// Message is the id that the message will have, if it was queued.
	Message MessageID `json:",omitzero"`
	// Backgrounded is how many children were moved to the background for it.
	Backgrounded int
}

func (Created) isAnswer() {}
func (Sent) isAnswer()    {}

func (c CreateSession) needs(*needs) {}

func (c CreateSession) decide(d *decision) (Answer, error) {
	switch {
	case d.view.session != nil:
		return nil, ErrSessionExists
	case c.Agent == nil:
		return nil, ErrNoAgent.With("%s", c.AgentName)
	case c.NoModel != "":
		return nil, ErrNoModel.With("%s", c.NoModel)
	case !c.Agent.Mode.MayBeRoot():
		return nil, ErrNotARoot.With("%s", c.Agent.Name)
	}
	if err := c.Limits.checkBlocks(c.Message); err != nil {
		return nil, err
	}
	if err := checkName("the model", c.Model); err != nil {
		return nil, err
	}
	if err := checkName("the title", c.Title); err != nil {
		return nil, err
	}
	if err := checkSource(c.Source); err != nil {
		return nil, err
	}
	if err := CheckWorkspace(c.Workspace); err != nil {
		return nil, err
	}
	if err := c.Limits.checkHistory(c.History); err != nil {
		return nil, err
	}
	if err := c.Budget.Check(); err != nil {
		return nil, err
	}
	root := TaskID(d.env.NewID())
	d.view.session = &Session{
		ID: c.ID, Tenant: c.Tenant, Title: c.Title, Agent: c.Agent.Name, Root: root,
		Metadata: c.Metadata, Limits: c.Limits, Budget: c.Budget, NextSeq: 1, Workspace: c.Workspace, OnApproval: c.OnApproval,
		CreatedAt: d.env.Now, UpdatedAt: d.env.Now,
	}
	if c.Title == "" {
		d.view.session.Title = c.title()
	}
	if c.Approvals != policy.ApprovalsUnspecified {
		d.view.session.Limits.Escalate = c.Approvals == policy.ApprovalsEscalate
	}
	t := d.newTask(root, nil, *c.Agent, c.Model, "")
	t.Pin = c.Pin
	t.OnComplete = cmp.Or(c.OnComplete, t.OnComplete)
	t.Origin = c.Source
	t.Authority = policy.RootAuthority(c.Permissions, t.Permissions.Open(), false)
	d.emit(t, SessionOpened{Agent: c.Agent.Name, Title: d.view.session.Title})
	if len(c.History) > 0 {
		d.importHistory(t, c.History)
	}
	if len(c.Message) > 0 {
		d.accept(t, requester{trace: c.Trace})
		d.append(t, &Message{Role: RoleUser, Blocks: c.Message})
	}
	return Created{Session: c.ID, Root: root}, nil
}

// newTask adds a task without a run to the tree. A nil parent makes a root or a branch.
func (d *decision) newTask(id TaskID, parent *Task, agent Agent, model, description string) *Task {
	s := d.session()
	t := &Task{
		Session: s.ID, ID: id, Kind: KindAgent, Branch: BranchMain, CurrentRun: CurrentRun{State: StateNew},
		Agent: agent.Name, AgentVersion: agent.Version, Model: model, Description: description,
		CreatedAt: d.env.Now, NextOrdinal: 1, Timeout: s.Limits.timeout(agent), FailOnInterrupt: agent.FailOnInterrupt,
		OnComplete: agent.OnComplete, Permissions: agent.Permissions,
	}
	if parent != nil {
		t.Parent, t.Branch, t.Depth = parent.ID, BranchSubagent, parent.Depth+1
		t.setWorktrees(parent, agent)
		parent.Children++
		d.view.touchTask(parent)
	}
	t.MaxIterations = s.Limits.iterations(agent, t.Depth)
	s.Total++
	d.view.changes.Session = s
	d.view.touchTask(t)
	return t
}

// titleLength is the maximum length of a title that is made from a message, in bytes.
const titleLength = 80

// title is the start of the first message.
func (c CreateSession) title() string {
	if len(c.Message) == 0 && len(c.History) > 0 {
		return titleFrom(c.History[0].Blocks)
	}
	return titleFrom(c.Message)
}

func titleFrom(blocks []Block) string {
	m := Message{Blocks: blocks}
	return excerpt.Short(excerpt.Valid(m.Text()), titleLength)
}

func (c Send) needs(n *needs) {
	t := n.task(n.view.session.OrCurrent(c.Task))
	n.boundary(t)
	if t != nil && !t.Parent.IsZero() {
		n.task(t.Parent)
	}
	if t != nil && t.Depth == 0 && n.view.session.Title == "" {
		n.root() // the event about the new title belongs to the root
	}
	if c.Interrupt {
		n.interrupt(t)
	}
}

func (c Send) decide(d *decision) (Answer, error) {
	t, err := d.task(d.session().OrCurrent(c.Task))
	if err != nil {
		return nil, err
	}
	limits := d.session().Limits
	if err := t.MustBeAgent(); err != nil {
		return nil, err
	}
	if len(c.Message) == 0 {
		return nil, ErrEmpty
	}
	if err := limits.checkBlocks(c.Message); err != nil {
		return nil, err
	}
	if err := checkSource(c.Source); err != nil {
		return nil, err
	}
	if t.State.Active() {
		if err := d.checkInboxRoom(t, c.Message); err != nil {
			return nil, err
		}
	}
	if t.Depth == 0 && d.session().Title == "" {
		if title := titleFrom(c.Message); title != "" {
			d.rename(title)
		}
	}
	sent := Sent{Task: t.ID, Message: d.deliverMessage(t, requester{source: c.Source, trace: c.Trace}, c.Message)}
	sent.Queued = !sent.Message.IsZero()
	if sent.Queued && c.Interrupt {
		sent.Backgrounded = d.interrupt(t)
	}
	sent.Run = t.Run
	return sent, nil
}

// deliverMessage gives a task a user message. If the message had to be queued, it returns the id
// that the message will have.
func (d *decision) deliverMessage(t *Task, a requester, blocks []Block) (queued MessageID) {
	if !t.State.Active() {
		d.accept(t, a)
		d.takeInbox(t)
		d.append(t, &Message{Role: RoleUser, Blocks: blocks})
		return MessageID{}
	}
	e := &InboxEntry{Blocks: blocks, Source: a.source, Trace: a.trace}
	d.enqueue(t, e)
	if t.State == StateWaiting && t.Wait.Kind == WaitBackground {
		d.wake(t)
	}
	return e.ID
}
