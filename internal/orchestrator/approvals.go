package orchestrator

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// Approval is an approval as the store has it.
type Approval = store.Approval

// Page is a piece of a list as the store reads it.
type Page[T any] = store.Page[T]

// Approvals reads a page of approvals, oldest first: of a session, or the open ones
// of all sessions of the tenant if it is the zero id.
func (s *Service) Approvals(ctx context.Context, tenant string, id tree.SessionID, all bool, token string, size int) (Page[Approval], error) {
	if id.IsZero() {
		return s.Store.Approvals(ctx, tenant, token, size)
	}
	if _, err := s.Store.Session(ctx, tenant, id); err != nil {
		return Page[Approval]{}, err
	}
	return s.Store.SessionApprovals(ctx, id, all, token, size)
}

// DecideApproval answers an approval. If a session is named, it has to be that
// session's.
func (s *Service) DecideApproval(ctx context.Context, tenant string, id tree.SessionID, cmd tree.DecideApproval) (*Approval, error) {
	found, err := s.Store.Approval(ctx, tenant, cmd.ID)
	switch {
	case err != nil:
		return nil, err
	case !id.IsZero() && id != found.Session:
		return nil, tree.ErrNoApproval.With("%s in session %s", cmd.ID, id)
	}
	answer, err := s.Store.Update(ctx, found.Session, cmd)
	if err != nil {
		return nil, err
	}
	return &Approval{Session: found.Session, Approval: answer.(tree.Decided).Approval}, nil
}

// needsWorkspaces reports whether a run may only be carried by a worker that can tell
// workspaces apart.
func needsWorkspaces(c *tree.Claimed) bool { return c.Workspace != "" || c.Task.Worktrees != "" }

// needsPolicy reports whether a run may only be carried by a worker that judges calls.
func needsPolicy(t *tree.Task) bool { return t.Authority != "" || t.Source != "" || t.Asking > 0 }

// idleCause says why nothing of a session goes on.
func idleCause(s *tree.Session) pb.IdleCause {
	if s.Asking > 0 {
		return pb.IdleCause_IDLE_CAUSE_BLOCKED
	}
	return pb.IdleCause_IDLE_CAUSE_DONE
}
