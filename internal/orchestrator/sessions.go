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

// SessionSpec is what a client asks for when it opens a session.
type SessionSpec struct {
	Agent    string // empty: [DefaultAgent]
	Text     string // the first message; empty: none yet
	Title    string
	Model    string
	Metadata map[string]string

	Permissions  policy.Layer
	Approvals    policy.Approvals // how approvals that sub-agents request are handled; unspecified: the orchestrator's default
	Source       string           // the external source that opened it; empty: none
	NoBackground bool
	OnComplete   string // the URL to call when a run of the root has ended; empty: the agent definition's
	OnApproval   string // the URL to call when an approval is requested; empty: none
	Workspace    string // the name of a shared directory; empty: a directory of its own
	Budget       tree.Budget

	history []tree.Message // the imported conversation that the root begins with
}

// Idempotency makes a client's call safe to repeat. Without a key it has no effect.
type Idempotency struct {
	Key  string
	Hash [sha256.Size]byte // of the request
}

// CreateSession opens a session and returns it with its root. It assumes that the tenant's agents
// have not changed since they were last read. If the commit finds that they have, it reads them and
// tries again.
func (s *Service) CreateSession(ctx context.Context, tenant string, spec SessionSpec, idem Idempotency) (session *tree.Session, root *tree.Task, err error) {
	agents := s.agents.lastSnapshot(tenant)
	for {
		if agents == nil {
			if agents, err = s.agents.snapshot(ctx, tenant); err != nil {
				return nil, nil, err
			}
		}
		session, root, err = s.createSessionWith(ctx, tenant, agents, spec, idem)
		if !errors.Is(err, store.ErrAgentsChanged) {
			return session, root, err
		}
		agents = nil
	}
}

// createSessionWith opens a session with the agents of a snapshot. It fails with
// [store.ErrAgentsChanged] if they have changed.
func (s *Service) createSessionWith(ctx context.Context, tenant string, agents *store.AgentsSnapshot, spec SessionSpec, idem Idempotency) (*tree.Session, *tree.Task, error) {
	if spec.Agent == "" {
		spec.Agent = DefaultAgent
	}
	root := tree.Child{AgentName: spec.Agent, Model: spec.Model}
	if err := s.resolveChildWith(ctx, tenant, agents, &root); err != nil {
		return nil, nil, err
	}
	if root.Pin.IsZero() {
		root.Pin = s.Models.First()
	}
	id, err := sessionID(tenant, idem.Key)
	if err != nil {
		return nil, nil, err
	}
	cmd := tree.CreateSession{
		ID: id, Tenant: tenant, Title: spec.Title, Agent: root.Agent, AgentName: spec.Agent, Model: spec.Model,
		Pin: root.Pin, NoModel: root.NoModel, Metadata: spec.Metadata, Limits: s.Limits, Budget: spec.Budget.Within(s.Budget), History: spec.history,
		Permissions: spec.Permissions, Approvals: spec.Approvals, Source: spec.Source, Trace: telemetry.TraceFromContext(ctx), Workspace: spec.Workspace,
		OnComplete: spec.OnComplete, OnApproval: spec.OnApproval,
	}
	cmd.Limits.NoBackground = s.Limits.NoBackground || spec.NoBackground
	if spec.Text != "" {
		cmd.Message = []tree.Block{tree.Text{Text: spec.Text}}
	}
	session, opened, err := s.Store.Create(ctx, idem.storeKey(), cmd, agents)
	return session, opened, s.suggestRoots(ctx, tenant, spec.Agent, err)
}

// sessionID returns the id of a new session. With a key the id is derived from tenant and key, so
// that equal requests lead to the same session at any replica.
func sessionID(tenant, key string) (tree.SessionID, error) {
	if key == "" {
		id, err := uuid.NewV7()
		return tree.SessionID(id), err
	}
	sum := sha256.Sum256([]byte(tenant + "\x00" + key))
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: an id of our own scheme
	id[8] = id[8]&0x3f | 0x80
	return tree.SessionID(id), nil
}

func (r Idempotency) storeKey() *store.Key {
	if r.Key == "" {
		return nil
	}
	return &store.Key{Key: r.Key, Hash: r.Hash}
}

// update submits a client's command to a session of the tenant.
func update[A tree.Answer](ctx context.Context, s *Service, tenant string, id tree.SessionID, cmd tree.Command) (answer A, err error) {
	if _, err := s.Store.Session(ctx, tenant, id); err != nil {
		return answer, err
	}
	given, err := s.Store.Update(ctx, id, cmd)
	if err != nil {
		return answer, err
	}
	return given.(A), nil
}

// updateOnce is update for a command that is safe to repeat with a key.
func updateOnce[A tree.KeptAnswer](ctx context.Context, s *Service, tenant string, id tree.SessionID, cmd tree.Command, idem Idempotency) (answer A, err error) {
	key := idem.storeKey()
	if key == nil {
		return update[A](ctx, s, tenant, id, cmd)
	}
	if _, err := s.Store.Session(ctx, tenant, id); err != nil {
		return answer, err
	}
	given, err := s.Store.UpdateOnce(ctx, id, *key, cmd)
	if err != nil {
		return answer, err
	}
	return given.(A), nil
}

// updateTask submits a command whose answer is [tree.DoneTo], and returns the task afterwards.
func (s *Service) updateTask(ctx context.Context, tenant string, id tree.SessionID, cmd tree.Command) (*tree.Task, error) {
	done, err := update[tree.DoneTo](ctx, s, tenant, id, cmd)
	if err != nil {
		return nil, err
	}
	return s.Store.Task(ctx, id, done.Task)
}

// UserMessage is a message of a client to a task.
type UserMessage struct {
	Task      tree.TaskID // zero: the current branch
	Text      string
	Interrupt bool
	Source    string // the external source of the message; empty: none
}

// SendMessage sends a user message to a task of the session, and returns the task afterwards.
func (s *Service) SendMessage(ctx context.Context, tenant string, id tree.SessionID, m UserMessage, idem Idempotency) (*tree.Task, tree.Sent, error) {
	if tree.Blank(m.Text) {
		return nil, tree.Sent{}, tree.ErrEmpty.With("message")
	}
	sent, err := updateOnce[tree.Sent](ctx, s, tenant, id, tree.Send{
		Task: m.Task, Message: []tree.Block{tree.Text{Text: m.Text}}, Interrupt: m.Interrupt, Source: m.Source,
		Trace: telemetry.TraceFromContext(ctx),
	}, idem)
	if err != nil {
		return nil, tree.Sent{}, err
	}
	t, err := s.Store.Task(ctx, id, sent.Task)
	return t, sent, err
}

// maxFirstWords bounds the part of a prompt that stands for a description, in bytes.
const maxFirstWords = 60

// firstWords returns the first words of a prompt on one line.
func firstWords(prompt string) string {
	line := strings.Join(strings.Fields(excerpt.Valid(excerpt.Head(prompt, 4*maxFirstWords))), " ")
	if len(line) > maxFirstWords {
		line = excerpt.Head(line, maxFirstWords-len("…")) + "…"
	}
	return line
}

// SpawnTask starts a task below another one. It sets what follows from the names of agent and
// model, the trace, and a description if there is none.
func (s *Service) SpawnTask(ctx context.Context, tenant string, id tree.SessionID, spawn tree.SpawnTask, idem Idempotency) (*tree.Task, error) {
	if spawn.Child.Description == "" { // so that the task can be told from others in the tree
		spawn.Child.Description = firstWords(spawn.Child.Prompt)
	}
	if err := s.resolveChild(ctx, tenant, &spawn.Child); err != nil {
		return nil, err
	}
	spawn.Trace = telemetry.TraceFromContext(ctx)
	spawned, err := updateOnce[tree.Spawned](ctx, s, tenant, id, spawn, idem)
	if err != nil {
		return nil, s.suggestSubagents(ctx, tenant, spawn.Child.AgentName, err)
	}
	return s.Store.Task(ctx, id, spawned.Task)
}

// CancelTask ends the run of a task and the runs of all tasks below it. It returns the task and the
// number of runs that ended.
func (s *Service) CancelTask(ctx context.Context, tenant string, id tree.SessionID, cancel tree.Cancel) (*tree.Task, int, error) {
	cancelled, err := update[tree.Cancelled](ctx, s, tenant, id, cancel)
	if err != nil {
		return nil, 0, err
	}
	t, err := s.Store.Task(ctx, id, cancelled.Task)
	return t, cancelled.Runs, err
}

// BackgroundTask lets a parent continue that waits for a task.
func (s *Service) BackgroundTask(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (*tree.Task, error) {
	return s.updateTask(ctx, tenant, id, tree.Background{Task: task})
}
