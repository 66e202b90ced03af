package tree

import "unicode/utf8"

// CreateSession opens a session with its root and, if there is a message, starts
// the root's first run. Answer: [Created].
type CreateSession struct {
	ID       SessionID
	Tenant   string
	Title    string // empty: the start of the message
	Agent    *Agent // nil: there is no agent of that name
	Model    string
	Message  []Block // empty: no first turn yet
	Metadata map[string]string
	Limits   Limits
}

// Created is the session that was opened.
type Created struct {
	Session SessionID
	Root    TaskID
}

// Send gives a task a user message: the next run of an ended task starts with
// it, a running one takes it in at its next boundary. Answer: [Sent].
type Send struct {
	Task    TaskID // zero: the root
	Message []Block
}

// Sent says what became of a message.
type Sent struct {
	Task   TaskID
	Run    int
	Queued bool
}

func (Created) isAnswer() {}
func (Sent) isAnswer()    {}

func (c CreateSession) needs(*needs) {}

func (c CreateSession) decide(d *decision) (Answer, error) {
	switch {
	case d.view.session != nil:
		return nil, ErrSessionExists
	case c.Agent == nil:
		return nil, ErrNoAgent
	case !c.Agent.Mode.MayBeRoot():
		return nil, ErrNotARoot.With("%s", c.Agent.Name)
	}
	if err := c.Limits.checkBlocks(c.Message); err != nil {
		return nil, err
	}
	if err := checkName("the model", c.Model); err != nil {
		return nil, err
	}
	root := TaskID(d.env.NewID())
	d.view.session = &Session{
		ID: c.ID, Tenant: c.Tenant, Title: c.Title, Agent: c.Agent.Name, Root: root,
		Metadata: c.Metadata, Limits: c.Limits, NextSeq: 1,
		CreatedAt: d.env.Now, UpdatedAt: d.env.Now,
	}
	if c.Title == "" {
		d.view.session.Title = titleFrom(c.Message)
	}
	t := d.newTask(root, nil, *c.Agent, c.Model, "")
	d.emit(t, SessionOpened{Agent: c.Agent.Name, Title: d.view.session.Title})
	if len(c.Message) > 0 {
		d.accept(t, asked{})
		d.append(t, &Message{Role: RoleUser, Blocks: c.Message})
	}
	return Created{Session: c.ID, Root: root}, nil
}

// newTask adds a task to the tree, without a run. A nil parent makes the root.
func (d *decision) newTask(id TaskID, parent *Task, agent Agent, model, description string) *Task {
	s := d.session()
	t := &Task{
		Session: s.ID, ID: id, Kind: KindAgent, Branch: BranchMain, State: StateNew,
		Agent: agent.Name, AgentVersion: agent.Version, Model: model, Description: description,
		CreatedAt: d.env.Now, NextOrdinal: 1, Timeout: agent.Timeout, FailOnInterrupt: agent.FailOnInterrupt,
	}
	if parent != nil {
		t.Parent, t.Branch, t.Depth = parent.ID, BranchSubagent, parent.Depth+1
		parent.Children++
		d.view.touchTask(parent)
	}
	t.MaxIterations = s.Limits.iterations(agent, t.Depth)
	s.Total++
	d.view.changes.Session = s
	d.view.touchTask(t)
	return t
}

// titleLength is how much of a first message makes a title, in bytes.
const titleLength = 80

func titleFrom(blocks []Block) string {
	m := Message{Blocks: blocks}
	title := m.Text()
	if len(title) <= titleLength {
		return title
	}
	cut := titleLength
	for cut > 0 && !utf8.RuneStart(title[cut]) {
		cut--
	}
	return title[:cut] + "…"
}

func (c Send) target(v *View) TaskID {
	if c.Task.IsZero() && v.session != nil {
		return v.session.Root
	}
	return c.Task
}

func (c Send) needs(n *needs) { n.boundary(n.task(c.target(n.view))) }

func (c Send) decide(d *decision) (Answer, error) {
	t, err := d.task(c.target(d.view))
	if err != nil {
		return nil, err
	}
	limits := d.session().Limits
	if len(c.Message) == 0 {
		return nil, ErrEmpty
	}
	if err := limits.checkBlocks(c.Message); err != nil {
		return nil, err
	}
	if t.State.Active() && t.Inbox >= limits.Inbox {
		return nil, ErrInbox.With("%d, the bound is %d", t.Inbox, limits.Inbox)
	}
	queued := d.say(t, asked{}, c.Message)
	return Sent{Task: t.ID, Run: t.Run, Queued: queued}, nil
}

// say gives a task a user message and reports whether it had to be queued.
func (d *decision) say(t *Task, a asked, blocks []Block) bool {
	if !t.State.Active() {
		d.accept(t, a)
		d.takeInbox(t)
		d.append(t, &Message{Role: RoleUser, Blocks: blocks})
		return false
	}
	d.queue(t, &InboxEntry{Blocks: blocks})
	if t.State == StateWaiting && t.Wait.Kind == WaitBackground {
		d.takeInbox(t)
		d.wake(t)
	}
	return true
}
