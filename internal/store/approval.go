package store

import (
	"context"
	"math"
	"time"

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
		&a.Tool, &a.Argument, &a.Cut, jsonColumn{&a.Rules}, timeColumn{&a.AskedAt}, timeColumn{&a.Due},
		&a.State, &a.ForSession, &a.Message, timeColumn{&a.DecidedAt},
		&a.URL, &a.Tries, timeColumn{&a.CallDue},
	}
}

// countedApprovals limits how many open approvals are counted.
const countedApprovals = 10_000

// OpenApprovals counts the open approvals of all tenants, up to countedApprovals, and gives the age
// of the oldest.
func (s *Store) OpenApprovals(ctx context.Context) (open int, oldest time.Duration, err error) {
	type counted struct {
		open   int
		oldest time.Duration
	}
	c, err := one(ctx, s.db, tree.ErrNoApproval, "approvals_open", func(c *counted) []any {
		return []any{&c.open, durationColumn{&c.oldest}}
	}, s.clock(), countedApprovals)
	if err != nil {
		return 0, 0, err
	}
	return c.open, max(0, c.oldest), nil
}

// approvals looks up approvals by their ids.
func (b *batch) approvals(wanted []sessionNeeds) (_ lookup, put func()) {
	found := map[sessionKey[tree.ApprovalID]]*tree.Approval{}
	var keys [][]any
	for _, w := range wanted {
		for _, id := range w.Approvals {
			k := sessionKey[tree.ApprovalID]{w.session, id}
			if _, asked := found[k]; !asked {
				found[k] = nil
				keys = append(keys, []any{idColumn(&k.session), idColumn(&k.key)})
			}
		}
	}
	take := func(row row) error {
		a := &Approval{}
		err := row.Scan(approvalRow(a)...)
		found[sessionKey[tree.ApprovalID]{a.Session, a.ID}] = &a.Approval
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

// Approvals reads a page of the open approvals of all sessions of a tenant, oldest first. If most
// of them belong to other tenants, a page is not full, and may be empty: one read scans a limited
// number of rows.
func (s *Store) Approvals(ctx context.Context, tenant, token string, size int) (Page[Approval], error) {
	list := listOf("approvals", tenant)
	var after tree.ApprovalID
	if _, err := list.after(token, after[:]); err != nil {
		return Page[Approval]{}, err
	}
	found, last, err := scan(ctx, s.scans, "approvals_of_tenant", approvalRow, size, maxScanRows, tenant, after[:], size, maxScanRows)
	return pageOf(found, last, list.ofApproval), err
}

// SessionApprovals reads a page of a session's approvals, oldest first: the open ones, or all.
func (s *Store) SessionApprovals(ctx context.Context, session tree.SessionID, all bool, token string, size int) (Page[Approval], error) {
	highest := int(tree.ApprovalOpen)
	if all {
		highest = math.MaxUint8
	}
	list := listOf("approvals of a session", session, highest)
	var after tree.ApprovalID
	if _, err := list.after(token, after[:]); err != nil {
		return Page[Approval]{}, err
	}
	found, err := query(ctx, s.scans, "approvals_of_session", approvalRow, idColumn(&session), after[:], size, highest)
	return pageOf(found, lastOf(found, size), list.ofApproval), err
}

func (l list) ofApproval(a *Approval) string { return l.token(a.AskedAt, a.ID[:]) }
