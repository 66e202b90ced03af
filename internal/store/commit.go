package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// batch is what one transaction does.
type batch struct {
	*Store
	now   time.Time
	views map[tree.SessionID]*tree.View
	order []tree.SessionID // of views, by arrival
	once  map[requestKey]*request
	fresh []requestKey // requests that this batch has answered first
	ready []Ready
}

type requestKey struct {
	session tree.SessionID
	key     string
}

// request is a stored answer to a request with a key.
type request struct {
	hash   [32]byte
	answer tree.Answer
}

// commit makes one transaction of a batch, answers everyone, and tells what has
// changed.
func (s *Store) commit(ctx context.Context, queued []*Pending) {
	b := &batch{
		Store: s, now: s.Clock().UTC().Truncate(time.Microsecond),
		views: map[tree.SessionID]*tree.View{}, once: map[requestKey]*request{},
	}
	answers, err := b.transact(ctx, queued)
	if err != nil {
		s.Logger.ErrorContext(ctx, "a transaction failed", "commands", len(queued), "error", err)
		s.recent = newRecent()
		var shown error = ErrUnavailable.With("the database did not take the transaction")
		if errors.Is(err, errDefect) {
			shown = errDefect
		}
		for _, p := range queued {
			p.settle(nil, shown)
		}
		return
	}
	for _, id := range b.order {
		s.recent.keep(id, b.views[id].Changes())
	}
	for i, p := range queued {
		p.settle(answers[i].answer, answers[i].err)
	}
	s.OnCommit(b.told())
}

// errDefect says that a decision panicked. Trying again would not help.
var errDefect = errors.New("store: a decision failed")

// decided is the outcome of one command.
type decided struct {
	answer tree.Answer
	err    error
}

// transact does all the work between BEGIN and COMMIT. After an error nothing of
// it is stored.
func (b *batch) transact(ctx context.Context, queued []*Pending) (answers []decided, err error) {
	if err := b.db.begin(ctx); err != nil {
		return nil, fmt.Errorf("beginning: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errDefect, p, debug.Stack())
		}
		if err != nil {
			// A transaction that failed may be rolled back already.
			if rollback := b.db.rollback(ctx); rollback != nil {
				b.Logger.DebugContext(ctx, "rolling back", "error", rollback)
			}
		}
	}()
	if err := b.prefetch(ctx, queued); err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	answers = make([]decided, len(queued))
	for i, p := range queued {
		if answers[i], err = b.decide(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := b.save(ctx); err != nil {
		return nil, fmt.Errorf("writing: %w", err)
	}
	if err := b.db.commit(ctx); err != nil {
		return nil, fmt.Errorf("committing: %w", err)
	}
	return answers, nil
}

// prefetch reads what the commands need, all of them together, as far as can be
// told before the first is decided.
func (b *batch) prefetch(ctx context.Context, queued []*Pending) error {
	if err := b.loadSessions(ctx, queued); err != nil {
		return err
	}
	for {
		var wanted []want
		for _, p := range queued {
			if p.cmd != nil {
				if missing := b.views[p.session].Missing(p.cmd); !missing.Empty() {
					wanted = append(wanted, want{p.session, missing})
				}
			}
		}
		if len(wanted) == 0 {
			return nil
		}
		if err := b.load(ctx, wanted); err != nil {
			return err
		}
	}
}

// decide lets one command be decided. The error fails the whole batch.
func (b *batch) decide(ctx context.Context, p *Pending) (decided, error) {
	if p.cmd == nil {
		return decided{}, p.step(ctx)
	}
	if p.key != nil {
		done, err := b.answered(ctx, p)
		if err != nil || done != nil {
			return deref(done), err
		}
	}
	view := b.views[p.session]
	// An earlier command of the batch may have led to rows that were not foreseen.
	for missing := view.Missing(p.cmd); !missing.Empty(); missing = view.Missing(p.cmd) {
		if err := b.load(ctx, []want{{p.session, missing}}); err != nil {
			return decided{}, fmt.Errorf("reading: %w", err)
		}
	}
	answer, err := tree.Decide(view, tree.Env{Now: b.now, NewID: b.NewID, Replica: b.Replica}, p.cmd)
	if err == nil && p.key != nil {
		key := requestKey{p.session, p.key.Key}
		b.once[key] = &request{hash: p.key.Hash, answer: answer}
		b.fresh = append(b.fresh, key)
	}
	return decided{answer, err}, nil
}

func deref(d *decided) decided {
	if d == nil {
		return decided{}
	}
	return *d
}

// answered gives the stored answer to a request that came before; nil if none did.
func (b *batch) answered(ctx context.Context, p *Pending) (*decided, error) {
	key := requestKey{p.session, p.key.Key}
	r, held := b.once[key]
	if !held {
		var err error
		if r, err = b.request(ctx, key); err != nil {
			return nil, err
		}
		b.once[key] = r
	}
	switch {
	case r == nil:
		return nil, nil
	case r.hash != p.key.Hash:
		return &decided{err: tree.ErrKeyReused}, nil
	}
	return &decided{answer: r.answer}, nil
}

// request reads a stored request; nil if there is none.
func (b *batch) request(ctx context.Context, key requestKey) (*request, error) {
	var found *request
	err := b.db.load(ctx, "request", [][]any{{idColumn(&key.session), key.key}}, func(rows *sql.Rows) error {
		var hash, answer []byte
		var session tree.SessionID
		var name string
		if err := rows.Scan(idColumn(&session), &name, &hash, &answer); err != nil {
			return err
		}
		found = &request{hash: [32]byte(hash)}
		var err error
		found.answer, err = decodeAnswer(answer)
		return err
	})
	return found, err
}

// stored is how an answer is kept: exactly one field is set.
type stored struct {
	Created *tree.Created `json:"created,omitempty"`
	Sent    *tree.Sent    `json:"sent,omitempty"`
	Spawned *tree.Spawned `json:"spawned,omitempty"`
}

func encodeAnswer(a tree.Answer) ([]byte, error) {
	var s stored
	switch a := a.(type) {
	case tree.Created:
		s.Created = &a
	case tree.Sent:
		s.Sent = &a
	case tree.Spawned:
		s.Spawned = &a
	default:
		return nil, fmt.Errorf("an answer of type %T can't be kept for a repeat", a)
	}
	return json.Marshal(s)
}

func decodeAnswer(data []byte) (tree.Answer, error) {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading a stored answer: %w", err)
	}
	switch {
	case s.Created != nil:
		return *s.Created, nil
	case s.Sent != nil:
		return *s.Sent, nil
	case s.Spawned != nil:
		return *s.Spawned, nil
	}
	return nil, errors.New("reading a stored answer: it is of no known type")
}

// told says what the batch has changed.
func (b *batch) told() Commit {
	c := Commit{Ready: b.ready}
	for _, id := range b.order {
		v := b.views[id]
		changes := v.Changes()
		c.Revoked = append(c.Revoked, changes.Revoked...)
		if len(changes.Events) == 0 {
			continue
		}
		c.Sessions = append(c.Sessions, Touched{Session: id, LastSeq: v.Session().NextSeq - 1})
		for _, a := range changes.Attempts {
			c.Room = c.Room || a == nil && v.Session().Pending > 0
		}
	}
	return c
}
