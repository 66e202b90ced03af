package store

import (
	"context"
	"encoding/binary"

	"github.com/coppice-run/coppice/internal/tree"
)

// Key makes a command safe to repeat.
type Key struct {
	Key  string
	Hash [32]byte // of what was asked
}

// Update lets a command be decided and waits until its effect is durable. The
// error is the command's refusal, or wraps ErrUnavailable; either way nothing was
// changed. If ctx ends first, the command may still be carried out.
func (s *Store) Update(ctx context.Context, id tree.SessionID, cmd tree.Command) (tree.Answer, error) {
	p, err := s.Submit(ctx, id, cmd)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// UpdateOnce is Update for a command that may be repeated: a repeat with the same
// key gets the first answer, and one that asks for something else is refused.
func (s *Store) UpdateOnce(ctx context.Context, id tree.SessionID, key Key, cmd tree.Command) (tree.Answer, error) {
	p := s.Prepare(id, cmd, nil)
	p.key = &key
	if err := s.committerOf(id).enqueue(ctx, p); err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Submit queues a command and returns at once; it waits only while the queue is
// full. Commands submitted one after another are decided in that order.
func (s *Store) Submit(ctx context.Context, id tree.SessionID, cmd tree.Command) (*Pending, error) {
	p := s.Prepare(id, cmd, nil)
	return p, s.Queue(ctx, p)
}

// Prepare gives a command that is to be queued. If it is a request of a worker, that may
// take another run should the request give its own back.
func (s *Store) Prepare(id tree.SessionID, cmd tree.Command, offer *Offer) *Pending {
	return &Pending{session: id, cmd: cmd, offer: offer, done: make(chan struct{}), ended: s.ended}
}

// SameCommitter reports whether a request of one session may take a run of another.
func (s *Store) SameCommitter(a, b tree.SessionID) bool { return s.committerOf(a) == s.committerOf(b) }

// Queue is Submit for commands of one session. They are decided in their order and in one
// transaction.
func (s *Store) Queue(ctx context.Context, commands ...*Pending) error {
	if len(commands) == 0 {
		return nil
	}
	first := commands[0]
	first.group = commands[1:]
	return s.committerOf(first.session).enqueue(ctx, first)
}

// write takes a step of the store's own in a transaction.
func (s *Store) write(ctx context.Context, step func(context.Context, *batch) error) error {
	return s.stepCommitter.step(ctx, step)
}

// step queues a step to be taken in a transaction. Once it is queued it is waited for,
// whatever becomes of ctx: the step writes to what its caller holds.
func (c *committer) step(ctx context.Context, step func(context.Context, *batch) error) error {
	p := c.Prepare(tree.SessionID{}, nil, nil)
	p.step = step
	if err := c.enqueue(ctx, p); err != nil {
		return err
	}
	_, err := p.Wait(context.WithoutCancel(ctx))
	return err
}

func (c *committer) enqueue(ctx context.Context, p *Pending) error {
	select {
	case c.queue <- p:
		return nil
	case <-c.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) committerOf(id tree.SessionID) *committer {
	return s.committers[binary.BigEndian.Uint64(id[8:])%uint64(len(s.committers))]
}

// Pending is a command, or a step of the store's own, that is queued.
type Pending struct {
	session tree.SessionID
	cmd     tree.Command
	key     *Key
	offer   *Offer          // nil: no other run
	slot    Slot            // that the run is claimed for; nil: for who asks
	agents  *AgentsSnapshot // what it was put together with; nil: that does not matter

	step func(context.Context, *batch) error // in the place of a command

	group    []*Pending    // what is in the same transaction
	isolated bool          // it was refused together with others
	ended    chan struct{} // of the store

	done          chan struct{}      // closed once it is decided, and that is durable
	commandResult                    // by then
	conversation  CachedConversation // of a run that was claimed
}

// Wait gives the answer when it is durable.
func (p *Pending) Wait(ctx context.Context) (tree.Answer, error) {
	select {
	case <-p.done:
		return p.answer, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ended:
	}
	// Nobody takes anything from the queue any more; what was taken is answered.
	select {
	case <-p.done:
		return p.answer, p.err
	default:
		return nil, ErrClosed
	}
}

// CachedConversation is what the commit knows of a run that was claimed, once Wait has given the answer.
func (p *Pending) CachedConversation() CachedConversation { return p.conversation }

// NextRun is the run that the worker has got in the place of the one that it has given back,
// once Wait has given the answer; nil if it has got none. The error says why that is so if
// the one that was to be Next was refused.
func (p *Pending) NextRun() (*tree.Claimed, error) { return p.nextRun, p.nextErr }

func (p *Pending) complete(d commandResult, known CachedConversation) {
	p.commandResult, p.conversation = d, known
	close(p.done)
}
