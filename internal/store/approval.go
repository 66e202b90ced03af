package store

import (
	"context"
	"math"

	"github.com/coppice-run/coppice/internal/tree"
)

// Approval is an approval with its session.
type Approval struct {
	Session tree.SessionID
	tree.Approval
}

func approvalRow(a *Approval) []any {
	return []any{
		idColumn(&a.Session), idColumn(&a.ID), idColumn(&a.Task), &a.Run, &a.Ref.Message, &a.Ref.Block,
		&a.Tool, &a.Argument, jsonColumn{&a.Rules}, timeColumn{&a.AskedAt}, timeColumn{&a.Due},
		&a.State, &a.ForSession, &a.Message, timeColumn{&a.DecidedAt},
	}
}

// approvals looks up approvals by their ids.
func (b *batch) approvals(wanted []want) (_ lookup, put func()) {
	found := map[inSession[tree.ApprovalID]]*tree.Approval{}
	var keys [][]any
	for _, w := range wanted {
		for _, id := range w.Approvals {
			k := inSession[tree.ApprovalID]{w.session, id}
			if _, asked := found[k]; !asked {
				found[k] = nil
				keys = append(keys, []any{idColumn(&k.session), idColumn(&k.key)})
			}
		}
	}
	take := func(row row) error {
		a := &Approval{}
		err := row.Scan(approvalRow(a)...)
		found[inSession[tree.ApprovalID]{a.Session, a.ID}] = &a.Approval
		return err
	}
	return lookup{"approvals", keys, take}, func() {
		for k, a := range found {
			b.sessions[k.session].view.PutApproval(k.key, a)
		}
	}
}

// Approval finds an approval of a tenant by its id alone.
func (s *Store) Approval(ctx context.Context, tenant string, id tree.ApprovalID) (*Approval, error) {
	return one(ctx, s.db, tree.ErrNoApproval.With("%s", id), "approval_by_id", approvalRow, tenant, idColumn(&id))
}

// Approvals reads a page of the open approvals of all sessions of a tenant, oldest
// first, and the token of the next page.
func (s *Store) Approvals(ctx context.Context, tenant, token string, size int) ([]Approval, string, error) {
	return s.approvalPage(ctx, "approvals_of_tenant", token, size, func(after []byte) []any {
		return []any{tenant, after, size}
	})
}

// SessionApprovals reads a page of the approvals of a session, oldest first: those
// that are open, or all there ever were.
func (s *Store) SessionApprovals(ctx context.Context, session tree.SessionID, all bool, token string, size int) ([]Approval, string, error) {
	highest := int(tree.ApprovalOpen)
	if all {
		highest = math.MaxUint8
	}
	return s.approvalPage(ctx, "approvals_of_session", token, size, func(after []byte) []any {
		return []any{idColumn(&session), after, size, highest}
	})
}

func (s *Store) approvalPage(ctx context.Context, name, token string, size int, args func(after []byte) []any) ([]Approval, string, error) {
	var after tree.ApprovalID
	if token != "" {
		if _, err := readToken(token, after[:]); err != nil {
			return nil, "", err
		}
	}
	found, err := query(ctx, s.db, name, approvalRow, args(after[:])...)
	if err != nil || len(found) < size {
		return found, "", err
	}
	last := &found[len(found)-1]
	return found, writeToken(last.AskedAt, last.ID[:]), nil
}
