// Package store keeps the truth: sessions, their trees, transcripts and events,
// in SQL.
//
// Update is the only way to change a session. Commands queue to one committer;
// it takes what has queued meanwhile, for many sessions, and makes one
// transaction of it: it reads what the commands touch, lets each be decided in
// the order of arrival (a refusal never disturbs the others), writes with one
// statement a table, commits, and answers. So what was answered is durable, a
// session's events have no gap, nothing is ever retried against a changed row,
// and a commit is shared by all that wait for one.
//
// Reads go past the committer, each in one snapshot, and see every commit that
// was answered before they began.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/tree"
)

// ErrUnavailable says that the database did not take a transaction. Nothing of
// it was stored; the same call may succeed later.
var ErrUnavailable = tree.ErrUnavailable

// ErrClosed says that the store is closed.
var ErrClosed = tree.ErrUnavailable.With("the store is closed")

// Config says what a store works with.
type Config struct {
	Path     string           // of the database file
	Replica  string           // who decides
	Clock    func() time.Time // nil: time.Now
	NewID    func() [16]byte  // nil: UUIDv7
	MaxBatch int              // commands in one transaction; 0: DefaultMaxBatch
	OnCommit func(Commit)     // called after each commit, in order; must not wait
	Logger   *slog.Logger
}

// DefaultMaxBatch is how many commands one transaction takes at most.
const DefaultMaxBatch = 512

// Commit says what a transaction has changed.
type Commit struct {
	Sessions []Touched
	Ready    []Ready        // runs that wait for a worker since
	Revoked  []tree.Revoked // attempts that were ended from outside
	Room     bool           // a run has left its worker in a session where others wait for one
}

// Touched is a session that has new events.
type Touched struct {
	Session tree.SessionID
	LastSeq int64
}

// Store is an open database. Its methods may be called at once.
type Store struct {
	Config
	db           *sqlite
	lock         *fileLock
	installation string
	queue        chan *Pending
	ended        chan struct{} // closed when Run has ended: what is queued then stays so

	definitions sync.Map // version → body
	fair        fairness // only the committer looks at it
	recent      recent   // only the committer looks at it
}

// Open opens the database, brings it up to date, and locks it against other
// processes.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Path == "" {
		return nil, errors.New("store: a path is required")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.NewID == nil {
		c.NewID = newUUID
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = DefaultMaxBatch
	}
	if c.OnCommit == nil {
		c.OnCommit = func(Commit) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := lockFile(c.Path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", c.Path, err)
	}
	db, err := openSQLite(ctx, c.Path)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	s := &Store{
		Config: c, db: db, lock: lock, fair: newFairness(), recent: newRecent(),
		queue: make(chan *Pending, 4*c.MaxBatch), ended: make(chan struct{}),
	}
	if err := s.takeOver(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", c.Path, err), db.close(), lock.release())
	}
	return s, nil
}

// takeOver reads or makes the installation id, and forgets the replicas that
// served this file before: the lock says that they are gone.
func (s *Store) takeOver(ctx context.Context) error {
	found, err := query(ctx, s, nil, "installation", func(id *string) []any { return []any{id} })
	if err != nil {
		return err
	}
	if len(found) == 0 {
		found = []string{uuid.NewString()}
		if err := s.db.save(ctx, "installation_add", []any{found[0]}); err != nil {
			return err
		}
	}
	s.installation = found[0]
	if err := s.db.save(ctx, "replicas_forget", []any{}); err != nil {
		return err
	}
	return s.resumeTurns(ctx)
}

func newUUID() [16]byte { return uuid.Must(uuid.NewV7()) }

// Installation is the id of this database, made when it was.
func (s *Store) Installation() string { return s.installation }

// Close closes the database. Run has to have ended.
func (s *Store) Close() error {
	return errors.Join(s.db.close(), s.lock.release())
}

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
	p := &Pending{session: id, cmd: cmd, key: &key}
	if err := s.enqueue(ctx, p); err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Submit queues a command and returns at once; it waits only while the queue is
// full. Commands submitted one after another are decided in that order.
func (s *Store) Submit(ctx context.Context, id tree.SessionID, cmd tree.Command) (*Pending, error) {
	p := &Pending{session: id, cmd: cmd}
	return p, s.enqueue(ctx, p)
}

// write queues a step of the store's own to be taken in a transaction. Once it is
// queued it is waited for, whatever becomes of ctx: the step writes to what its
// caller holds.
func (s *Store) write(ctx context.Context, step func(context.Context) error) error {
	p := &Pending{step: step}
	if err := s.enqueue(ctx, p); err != nil {
		return err
	}
	_, err := p.Wait(context.WithoutCancel(ctx))
	return err
}

func (s *Store) enqueue(ctx context.Context, p *Pending) error {
	p.done, p.ended = make(chan struct{}), s.ended
	select {
	case s.queue <- p:
		return nil
	case <-s.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pending is a queued command.
type Pending struct {
	session tree.SessionID
	cmd     tree.Command
	key     *Key
	step    func(context.Context) error // instead of a command

	done   chan struct{}
	ended  chan struct{} // of the store
	answer tree.Answer
	err    error
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

func (p *Pending) settle(answer tree.Answer, err error) {
	p.answer, p.err = answer, err
	close(p.done)
}

// Run commits what is queued until ctx ends; what is queued then is refused. It
// can run only once.
func (s *Store) Run(ctx context.Context) error {
	defer close(s.ended)
	for ctx.Err() == nil {
		select {
		case p := <-s.queue:
			s.commit(context.WithoutCancel(ctx), s.gather(p))
		case <-ctx.Done():
		}
	}
	return nil
}

// gather takes what has queued, up to a batch. Who has just been answered gets
// the chance to ask for more first: fewer and larger transactions take less.
func (s *Store) gather(first *Pending) []*Pending {
	batch := []*Pending{first}
	for before := 0; before < len(batch) && len(batch) < s.MaxBatch; {
		before = len(batch)
		runtime.Gosched()
		for len(s.queue) > 0 && len(batch) < s.MaxBatch {
			batch = append(batch, <-s.queue)
		}
	}
	return batch
}
