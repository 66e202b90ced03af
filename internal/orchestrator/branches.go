package orchestrator

import (
	"context"
	"fmt"

	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tree"
)

// NewBranch is what a client asks for when it goes on from a message.
type NewBranch struct {
	Task        tree.TaskID // zero: the root
	Message     tree.MessageID
	Apart       bool   // without what came before
	Text        string // the first message; empty: none yet
	Regenerate  bool   // the model answers at once, without a message
	Description string
	Select      bool
}

// CreateBranch makes a branch. A message never changes, so it is read before the
// command is decided.
func (s *Service) CreateBranch(ctx context.Context, tenant string, id tree.SessionID, n NewBranch, req Request) (*tree.Task, error) {
	from, err := s.Task(ctx, tenant, id, n.Task)
	if err != nil {
		return nil, err
	}
	if err := from.MustBeAgent(); err != nil {
		return nil, err
	}
	at, err := s.Store.MessageByID(ctx, id, from.ID, n.Message)
	if err != nil {
		return nil, err
	}
	agent, err := s.pinned(ctx, from)
	if err != nil {
		return nil, err
	}
	cmd := tree.CreateBranch{
		Task: from.ID, At: *at, Agent: agent, Apart: n.Apart, Again: n.Regenerate,
		Description: n.Description, Select: n.Select, Trace: telemetry.TraceFromContext(ctx),
	}
	if n.Text != "" {
		if tree.Blank(n.Text) {
			return nil, tree.ErrEmpty.With("message")
		}
		cmd.Message = []tree.Block{tree.Text{Text: n.Text}}
	}
	branched, err := update[tree.Branched](ctx, s, tenant, id, cmd, req)
	if err != nil {
		return nil, err
	}
	return s.Store.Task(ctx, id, branched.Task)
}

// pinned gives the agent of a task as the task has pinned it, whatever has become
// of its definition since.
func (s *Service) pinned(ctx context.Context, t *tree.Task) (*tree.Agent, error) {
	def, err := s.agents.definition(ctx, t.AgentVersion)
	if err != nil {
		return nil, fmt.Errorf("reading a pinned definition: %w", err)
	}
	return agentOf(def), nil
}

// SelectBranch makes a branch, or the root, the conversation that messages go to
// which name no task.
func (s *Service) SelectBranch(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (*tree.Task, error) {
	session, err := s.Store.Session(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if task.IsZero() {
		task = session.Root
	}
	if _, err := s.Store.Update(ctx, id, tree.SelectBranch{Task: task}); err != nil {
		return nil, err
	}
	return s.Store.Task(ctx, id, task)
}
