package orchestrator

import (
	"context"
	"fmt"

	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tree"
)

// BranchSpec is what a client asks for when it opens a branch at a message.
type BranchSpec struct {
	Task           tree.TaskID // zero: the root
	Message        tree.MessageID
	WithoutContext bool   // the branch starts without the earlier conversation
	Text           string // the first message; empty: none yet
	Regenerate     bool   // the model answers again at once, without a message
	Description    string
	Select         bool
}

// CreateBranch opens a branch. It reads the message outside the transaction, because messages never
// change.
func (s *Service) CreateBranch(ctx context.Context, tenant string, id tree.SessionID, spec BranchSpec, idem Idempotency) (*tree.Task, error) {
	from, err := s.Task(ctx, tenant, id, spec.Task)
	if err != nil {
		return nil, err
	}
	if err := from.MustBeAgent(); err != nil {
		return nil, err
	}
	at, err := s.Store.MessageByID(ctx, id, from.ID, spec.Message)
	if err != nil {
		return nil, err
	}
	agent, err := s.pinnedAgent(ctx, from)
	if err != nil {
		return nil, err
	}
	cmd := tree.CreateBranch{
		Task: from.ID, At: *at, Agent: agent, Apart: spec.WithoutContext, Again: spec.Regenerate,
		Description: spec.Description, Select: spec.Select, Trace: telemetry.TraceFromContext(ctx),
	}
	if spec.Text != "" {
		if tree.Blank(spec.Text) {
			return nil, tree.ErrEmpty.With("message")
		}
		cmd.Message = []tree.Block{tree.Text{Text: spec.Text}}
	}
	branched, err := updateOnce[tree.Branched](ctx, s, tenant, id, cmd, idem)
	if err != nil {
		return nil, err
	}
	return s.Store.Task(ctx, id, branched.Task)
}

// pinnedAgent returns the agent of a task in the version that the task has pinned.
func (s *Service) pinnedAgent(ctx context.Context, t *tree.Task) (*tree.Agent, error) {
	def, err := s.agents.definition(ctx, t.AgentVersion)
	if err != nil {
		return nil, fmt.Errorf("reading a pinned definition: %w", err)
	}
	return treeAgent(def), nil
}

// SelectBranch makes a branch, or the root, the conversation that receives messages that name no
// task.
func (s *Service) SelectBranch(ctx context.Context, tenant string, id tree.SessionID, task tree.TaskID) (*tree.Task, error) {
	return s.updateTask(ctx, tenant, id, tree.SelectBranch{Task: task})
}
