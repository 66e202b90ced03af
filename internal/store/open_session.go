package store

import (
	"context"
	"maps"

	"github.com/coppice-run/coppice/internal/tree"
)

// openedSession is a session as the command that openedSession it left it, with its root.
type openedSession struct {
	session tree.Session
	root    tree.Task
}

// newOpenedSession copies what a command has just opened: the view is gone on with.
func newOpenedSession(v *tree.View, answer tree.Answer) *openedSession {
	created, ok := answer.(tree.Created)
	if !ok {
		return nil
	}
	o := &openedSession{*v.Session(), *v.HeldTask(created.Root)}
	o.session.Metadata = maps.Clone(o.session.Metadata)
	return o
}

// rootStart says how far the root of a session is that the batch has opened; nil if it has not,
// or if nothing is under way there.
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

// opensSession reports whether a command opensSession a session whose id was made for it: without a key
// nobody else can know the id.
func (p *Pending) opensSession() bool {
	_, creates := p.cmd.(tree.CreateSession)
	return creates && p.key == nil
}

// Create opens a session and gives it with its root, as they were then. If the request
// has a key and is a repeat, they are given as they are now. If the tenant's agents are not
// those of then, it fails with ErrAgentsChanged; nil: they are whatever they are.
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
