package orchestrator

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tree"
)

// NewSession is what a client asks for when it opens a session.
type NewSession struct {
	Agent    string // empty: [DefaultAgent]
	Text     string // the first message; empty: none yet
	Title    string
	Model    string
	Metadata map[string]string

	Permissions  policy.Layer
	Approvals    policy.Approvals // what becomes of what sub-agents ask; unspecified: what the orchestrator says
	Source       string           // who outside opens it; empty: nobody
	NoBackground bool
	OnComplete   string // the URL to call when a run of the root has ended; empty: the agent's
	OnApproval   string // the URL to call when something asks; empty: none
	Workspace    string // the directory that it shares with others; empty: its own
	Budget       tree.Budget

	history []tree.Message // what the root's conversation begins with
}

// Request makes a client's call safe to repeat. Without a key it does nothing.
type Request struct {
	Key  string
	Hash [sha256.Size]byte // of what was asked
}

// CreateSession opens a session and gives it with its root. It supposes that the tenant's
// agents are still those that were last read, and reads them if the commit finds that they
// are not.
func (s *Service) CreateSession(ctx context.Context, tenant string, n NewSession, req Request) (session *tree.Session, root *tree.Task, err error) {
	then := s.agents.lastSnapshot(tenant)
	for {
		if then == nil {
			if then, err = s.agents.snapshot(ctx, tenant); err != nil {
				return nil, nil, err
			}
		}
		session, root, err = s.createWith(ctx, tenant, then, n, req)
		if !errors.Is(err, store.ErrAgentsChanged) {
			return session, root, err
		}
		then = nil
	}
}

// createWith opens a session as long as the tenant's agents are those of then.
func (s *Service) createWith(ctx context.Context, tenant string, then *store.AgentsSnapshot, n NewSession, req Request) (*tree.Session, *tree.Task, error) {
	if n.Agent == "" {
		n.Agent = DefaultAgent
	}
	root := tree.Child{AgentName: n.Agent, Model: n.Model}
	if err := s.completeWith(ctx, tenant, then, &root); err != nil {
		return nil, nil, err
	}
	if root.Pin.IsZero() {
		root.Pin = s.Models.First()
	}
	id, err := sessionID(tenant, req.Key)
	if err != nil {
		return nil, nil, err
	}
	cmd := tree.CreateSession{
		ID: id, Tenant: tenant, Title: n.Title, Agent: root.Agent, AgentName: n.Agent, Model: n.Model,
		Pin: root.Pin, NoModel: root.NoModel, Metadata: n.Metadata, Limits: s.Limits, Budget: n.Budget.Within(s.Budget), History: n.history,
		Permissions: n.Permissions, Approvals: n.Approvals, Source: n.Source, Trace: telemetry.TraceFromContext(ctx), Workspace: n.Workspace,
		OnComplete: n.OnComplete, OnApproval: n.OnApproval,
	}
	cmd.Limits.NoBackground = s.Limits.NoBackground || n.NoBackground
	if n.Text != "" {
		cmd.Message = []tree.Block{tree.Text{Text: n.Text}}
	}
	session, opened, err := s.Store.Create(ctx, req.key(), cmd, then)
	return session, opened, s.namingRoots(ctx, tenant, n.Agent, err)
}

// sessionID makes the id of a new session. With a key it follows from tenant and
// key, so that two equal requests meet in the same session whoever serves them.
func sessionID(tenant, key string) (tree.SessionID, error) {
	if key == "" {
		id, err := uuid.NewV7()
		return tree.SessionID(id), err
	}
	sum := sha256.Sum256([]byte(tenant + "\x00" + key))
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: made by a rule of our own
	id[8] = id[8]&0x3f | 0x80
	return tree.SessionID(id), nil
}

// key is that of the request; nil if it has none.
func (r Request) key() *store.Key {
	if r.Key == "" {
		return nil
	}
	return &store.Key{Key: r.Key, Hash: r.Hash}
}

// update submits a client's command for a session of the tenant.
func update[A tree.Answer](ctx context.Context, s *Service, tenant string, id tree.SessionID, cmd tree.Command, req Request) (answer A, err error) {
	if _, err := s.Store.Session(ctx, tenant, id); err != nil {
		return answer, err
	}
	var given tree.Answer
	if key := req.key(); key != nil {
		given, err = s.Store.UpdateOnce(ctx, id, *key, cmd)
	} else {
		given, err = s.Store.Update(ctx, id, cmd)
	}
	if err != nil {
		return answer, err
	}
	return given.(A), nil
}

// Session reads a session of the tenant, and its root.
func (s *Service) Session(ctx context.Context, tenant string, id tree.SessionID) (*tree.Session, *tree.Task, error) {
	return s.Store.SessionAndRoot(ctx, tenant, id)
}

// UserMessage is what a client says to a task.
type UserMessage struct {
	Task      tree.TaskID // zero: the current branch
	Text      string
	Interrupt bool
	Source    string // who outside says it; empty: nobody
}

// SendMessage gives a task of the session a user message. It returns the task
// afterwards.
func (s *Service) SendMessage(ctx context.Context, tenant string, id tree.SessionID, m UserMessage, req Request) (*tree.Task, tree.Sent, error) {
	if tree.Blank(m.Text) {
		return nil, tree.Sent{}, tree.ErrEmpty.With("message")
	}
	sent, err := update[tree.Sent](ctx, s, tenant, id, tree.Send{
		Task: m.Task, Message: []tree.Block{tree.Text{Text: m.Text}}, Interrupt: m.Interrupt, Source: m.Source,
		Trace: telemetry.TraceFromContext(ctx),
	}, req)
	if err != nil {
		return nil, tree.Sent{}, err
	}
	t, err := s.Store.Task(ctx, id, sent.Task)
	return t, sent, err
}

// maxBeginning is how much of a prompt stands for a description, in bytes.
const maxBeginning = 60

// beginning gives the first words of a prompt on one line.
func beginning(prompt string) string {
	line := strings.Join(strings.Fields(excerpt.Head(prompt, 4*maxBeginning)), " ")
	if len(line) > maxBeginning {
		line = excerpt.Head(line, maxBeginning-len("…")) + "…"
	}
	return line
}

// SpawnTask starts a task below another. What follows from the names of its agent and its
// model, its trace, and a description if it has none, are filled in.
func (s *Service) SpawnTask(ctx context.Context, tenant string, id tree.SessionID, spawn tree.SpawnTask, req Request) (*tree.Task, error) {
	if spawn.Child.Description == "" { // so that whoever looks at the tree can tell it from others
		spawn.Child.Description = beginning(spawn.Child.Prompt)
	}
	if err := s.complete(ctx, tenant, &spawn.Child); err != nil {
		return nil, err
	}
	spawn.Trace = telemetry.TraceFromContext(ctx)
	spawned, err := update[tree.Spawned](ctx, s, tenant, id, spawn, req)
	if err != nil {
		return nil, s.namingSubagents(ctx, tenant, spawn.Child.AgentName, err)
	}
	return s.Store.Task(ctx, id, spawned.Task)
}

// CancelTask ends the run of a task and those of all tasks below it. It returns the
// task and how many runs it ended.
func (s *Service) CancelTask(ctx context.Context, tenant string, id tree.SessionID, cancel tree.Cancel) (*tree.Task, int, error) {
	cancelled, err := update[tree.Cancelled](ctx, s, tenant, id, cancel, Request{})
	if err != nil {
		return nil, 0, err
	}
	t, err := s.Store.Task(ctx, id, cancelled.Task)
	return t, cancelled.Runs, err
}

// BackgroundTask lets the parent go on that waits for a task.
func (s *Service) BackgroundTask(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (*tree.Task, error) {
	if _, err := update[tree.Done](ctx, s, tenant, id, tree.Background{Task: task}, Request{}); err != nil {
		return nil, err
	}
	return s.Store.Task(ctx, id, task)
}

// Task reads a task of the session; the zero task is the root.
func (s *Service) Task(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (*tree.Task, error) {
	return s.Store.TaskOf(ctx, tenant, id, task)
}

// HasResult reports whether the answer that ended a task's current run is its result.
// What a command has printed is, however it has ended.
func HasResult(t *tree.Task) bool {
	return t.State == tree.StateCompleted || t.State.Terminal() && t.Kind == tree.KindShell
}

// Result gives the text of the answer that ended the task's current run, or else the last words of
// one that did not complete; empty if there are none.
func (s *Service) Result(ctx context.Context, t *tree.Task) (answer, words string, err error) {
	if !t.State.Terminal() || t.Answer == 0 {
		return "", "", nil
	}
	outcome, err := s.Store.Outcome(ctx, t.Session, tree.ChildRun{Task: t.ID, Run: t.Run})
	return outcome.Answer, outcome.Words, err
}
