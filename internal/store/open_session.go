package store

import (
	"context"
	"maps"

	"github.com/coppice-run/coppice/internal/tree"
)

// openedSession is a session with its root, as the command that opened it has left them.
type openedSession struct {
	session tree.Session
	root    tree.Task
}

// newOpenedSession copies what a command has just opened, because later commands change the view.
func newOpenedSession(v *tree.View, answer tree.Answer) *openedSession {
	created, ok := answer.(tree.Created)
	if !ok {
		return nil
	}
	o := &openedSession{*v.Session(), *v.HeldTask(created.Root)}
	o.session.Metadata = maps.Clone(o.session.Metadata)
	return o
}

// rootStart gives the state of the root of a session that the batch has opened; nil if the session
// is not new, or if its root has no run under way.
func (b *batch) rootStart(id tree.SessionID) *RootStart {
	s := b.sessions[id]
	if s.row != nil {
		return nil
	}
	root := s.view.HeldTask(s.view.Session().Root)
	if root.Run == 0 || root.State.Terminal() {
		return nil
	}
	return &RootStart{s.view.Session().Tenant, TaskStatusOf(root)}
}

// opensWithGeneratedID reports whether a command opens a session with a generated id. Without an
// idempotency key nobody else can know that id.
func (p *Pending) opensWithGeneratedID() bool {
	_, creates := p.cmd.(tree.CreateSession)
	return creates && p.key == nil
}

// Create opens a session and returns it with its root, in their state after that command. A repeat
// with the same key returns them as they are now. If the tenant's agents differ from then, it fails
// with ErrAgentsChanged; a nil then skips that check.
func (s *Store) Create(ctx context.Context, key *Key, cmd tree.CreateSession, then *AgentsSnapshot) (*tree.Session, *tree.Task, error) {
	p := s.Prepare(cmd.ID, cmd, nil)
	p.key, p.agents = key, then
	if err := s.committerOf(cmd.ID).enqueue(ctx, p); err != nil {
		return nil, nil, err
	}
	if _, err := p.Wait(ctx); err != nil {
		return nil, nil, err
	}
	if p.opened != nil {
		return &p.opened.session, &p.opened.root, nil
	}
	return s.SessionAndRoot(ctx, cmd.Tenant, cmd.ID)
}
