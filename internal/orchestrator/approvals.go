package orchestrator

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// Approval is an approval and its session.
type Approval = store.Approval

// Page is a page of a list.
type Page[T any] = store.Page[T]

// Approvals returns a page of approvals, oldest first: those of a session, or with the zero id the
// open ones of all sessions of the tenant.
func (s *Service) Approvals(ctx context.Context, tenant string, id tree.SessionID, all bool, token string, size int) (Page[Approval], error) {
	if id.IsZero() {
		return s.Store.Approvals(ctx, tenant, token, size)
	}
	if _, err := s.Store.Session(ctx, tenant, id); err != nil {
		return Page[Approval]{}, err
	}
	return s.Store.SessionApprovals(ctx, id, all, token, size)
}

// DecideApproval decides an approval. If id is not zero, the approval must belong to that session.
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

// needsWorkspaces reports whether a run needs a worker that supports several workspaces.
func needsWorkspaces(c *tree.Claimed) bool { return c.Workspace != "" || c.Task.Worktrees != "" }

// needsPolicy reports whether a run needs a worker that checks permissions.
func needsPolicy(t *tree.Task) bool { return t.Authority != "" || t.Source != "" || t.Asking > 0 }

// idleCause says why a session is idle.
func idleCause(s *tree.Session) pb.IdleCause {
	if s.Asking > 0 {
		return pb.IdleCause_IDLE_CAUSE_BLOCKED
	}
	return pb.IdleCause_IDLE_CAUSE_DONE
}
