package store

import (
	"context"
	"encoding/binary"

	"github.com/coppice-run/coppice/internal/tree"
)

// Key is an idempotency key, which makes a command safe to repeat.
type Key struct {
	Key  string
	Hash [32]byte // of the request
}

// Update decides a command and waits until its effect is durable. The error is the command's
// refusal, or wraps ErrUnavailable; in both cases nothing was changed. If ctx ends first, the
// command may still be carried out.
func (s *Store) Update(ctx context.Context, id tree.SessionID, cmd tree.Command) (tree.Answer, error) {
	p, err := s.Submit(ctx, id, cmd)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// UpdateOnce is Update with an idempotency key. A repeat with the same key gets the first answer. A
// different request with the same key is refused.
func (s *Store) UpdateOnce(ctx context.Context, id tree.SessionID, key Key, cmd tree.Command) (tree.Answer, error) {
	p := s.Prepare(id, cmd, nil)
	p.key = &key
	if err := s.committerOf(id).enqueue(ctx, p); err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Submit queues a command and returns at once; it blocks only while the queue is full. Commands
// that are submitted one after another are decided in that order.
func (s *Store) Submit(ctx context.Context, id tree.SessionID, cmd tree.Command) (*Pending, error) {
	p := s.Prepare(id, cmd, nil)
	return p, s.Queue(ctx, p)
}

// Prepare makes a command that can be queued. With an offer, the command is a worker's request that
// may claim another run if it gives its own back.
func (s *Store) Prepare(id tree.SessionID, cmd tree.Command, offer *Offer) *Pending {
	return &Pending{session: id, cmd: cmd, offer: offer, done: make(chan struct{}), ended: s.ended}
}

// SameCommitter reports whether a request of one session may claim a run of the other: only
// sessions with the same committer can share a transaction.
func (s *Store) SameCommitter(a, b tree.SessionID) bool { return s.committerOf(a) == s.committerOf(b) }

// Queue is Submit for several commands of one session. They are decided in their order, in one
// transaction.
func (s *Store) Queue(ctx context.Context, commands ...*Pending) error {
	if len(commands) == 0 {
		return nil
	}
	first := commands[0]
	first.group = commands[1:]
	return s.committerOf(first.session).enqueue(ctx, first)
}

// write runs a step of the store's own in a transaction.
func (s *Store) write(ctx context.Context, step func(context.Context, *batch) error) error {
	return s.stepCommitter.step(ctx, step)
}

// step runs a step in a transaction. Once it is queued, step waits for it even if ctx ends, because
// the step writes to variables of its caller.
func (c *committer) step(ctx context.Context, step func(context.Context, *batch) error) error {
	p, err := c.submitStep(ctx, step)
	if err == nil {
		_, err = p.Wait(context.WithoutCancel(ctx))
	}
	return err
}

// submitStep queues a step. If it fails, that is logged.
func (c *committer) submitStep(ctx context.Context, step func(context.Context, *batch) error) (*Pending, error) {
	p := c.Prepare(tree.SessionID{}, nil, nil)
	p.step = step
	return p, c.enqueue(ctx, p)
}

func (c *committer) enqueue(ctx context.Context, p *Pending) error {
	if err := ctx.Err(); err != nil {
		return err // the select could still choose the queue
	}
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

// Pending is a queued command, or a step of the store's own.
type Pending struct {
	session tree.SessionID
	cmd     tree.Command
	key     *Key
	offer   *Offer          // nil: no other run is claimed
	slot    Slot            // the slot that the run is claimed for; nil: the caller
	agents  *AgentsSnapshot // the agents that the command was made with; nil: any

	step func(context.Context, *batch) error // instead of a command

	group    []*Pending    // more commands for the same transaction
	early    bool          // the answer does not wait until it is durable
	isolated bool          // its batch was refused; it is committed alone
	ended    chan struct{} // that of the store

	done          chan struct{}      // closed once the command is decided and durable, or its run begins early
	commandResult                    // valid after done
	conversation  CachedConversation // of the claimed run
}

// Wait returns the answer once it is durable.
func (p *Pending) Wait(ctx context.Context) (tree.Answer, error) {
	select {
	case <-p.done:
		return p.answer, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ended:
	}
	// The queue is not read any more, but what was taken from it is answered.
	select {
	case <-p.done:
		return p.answer, p.err
	default:
		return nil, ErrClosed
	}
}

// CachedConversation is what the commit knows of the conversation of the claimed run. It is valid
// after Wait has returned the answer.
func (p *Pending) CachedConversation() CachedConversation { return p.conversation }

// NextRun is the run that the worker got in place of the one that it gave back; nil if it got none.
// It is valid after Wait has returned the answer. The error says why the run named by Offer.Next
// was refused.
func (p *Pending) NextRun() (*tree.Claimed, error) { return p.nextRun, p.nextErr }

func (p *Pending) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *Pending) complete(d commandResult, known CachedConversation) {
	p.commandResult, p.conversation = d, known
	close(p.done)
}
