package store

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// batch is what one transaction does.
type batch struct {
	*committer
	tx       transaction
	now      time.Time
	sessions map[tree.SessionID]*session
	order    []tree.SessionID // of sessions, by arrival
	fairNow  int64
	once     map[requestKey]*request // nil: was not answered
	answered []requestKey            // requests that this batch has answered first
	ready    []Ready
	events   map[tree.SessionID][][]byte // as they are stored
	agents   map[string]*[]AgentVersion  // of the tenants whose runs are claimed, or whose sessions are opened
	locked   bool                        // the sessions that were there are, or will be with what is sent next; see locking.go
	unread   bool                        // what was asked for has not come: the connection was lost once it was committed
	care     care
	standby  Standby // nil: no slot is given anything
	given    []given

	announced, waiting, claimed int // ready runs, see ahead
}

func (c *committer) newBatch(tx transaction) *batch {
	return &batch{
		committer: c, tx: tx, sessions: map[tree.SessionID]*session{}, events: map[tree.SessionID][][]byte{},
		once: map[requestKey]*request{}, agents: map[string]*[]AgentVersion{},
	}
}

// commit makes one transaction of a batch, tells what has changed, and answers everyone. If the
// database refuses the batch, each gets a transaction of its own, so that only the culprit is
// refused.
func (c *committer) commit(ctx context.Context, queued []*Pending) {
	began := time.Now()
	b, answers, err := c.transact(ctx, queued)
	if err != nil {
		c.Logger.ErrorContext(ctx, "a transaction failed", "commands", len(queued), "error", err)
		if !errors.Is(err, ErrUnavailable) && c.apart(ctx, queued, err) {
			return
		}
		for _, p := range queued {
			p.settle(decided{err: shown(err)}, AtHand{})
		}
		return
	}
	// Who has got a run takes with it what is remembered; who is answered may ask at once for what
	// was told; and what is told are the changes, which are gone from what is held.
	b.remember()
	b.tell(queued, answers, began)
	b.answer(queued, answers)
	b.hold()
}

// remember takes in what was stored that a claim may need soon, and how many runs are announced.
func (b *batch) remember() {
	for _, id := range b.order {
		view := b.sessions[id].view
		changes := view.Changes()
		b.beginnings.keep(id, changes.Messages)
		b.wakings.keep(id, changes, b.held)
		b.prompts.keep(id, view)
	}
	b.ahead.committed(b.announced, b.waiting, b.claimed)
}

// tell tells the slots that have got runs, and then whoever else wants to hear what was stored.
func (b *batch) tell(queued []*Pending, answers []decided, began time.Time) {
	b.tellGiven()
	told := b.told()
	told.Commands, told.Refused, told.Took = len(queued), refusals(answers), time.Since(began)
	if !b.Unmeasured {
		told.Verdicts = append(told.Verdicts, notSpawned(queued, answers)...)
	}
	b.OnCommit(told)
}

// answer answers everyone, with what is known of the runs that were claimed.
func (b *batch) answer(queued []*Pending, answers []decided) {
	for i, p := range queued {
		var known AtHand
		if p.slot == nil {
			known = b.atHand(answers[i].claimed())
		}
		p.settle(answers[i], known)
	}
}

// hold keeps the sessions for the next batch.
func (b *batch) hold() {
	for _, id := range b.order {
		b.known.keep(id, b.sessions[id])
	}
}

// apart makes transactions of less than what the database has refused together: of one
// request each, for which no slot waits, or of one without the run that it would take. It
// reports false if there is no less.
func (c *committer) apart(ctx context.Context, queued []*Pending, refused error) bool {
	switch offer := queued[0].offer; {
	case len(queued) > 1 || !queued[0].alone:
	case offer != nil && offer.refused == nil:
		offer.refused = shown(refused)
	default:
		return false
	}
	for _, p := range queued {
		p.alone = true
		c.commit(ctx, []*Pending{p})
	}
	return true
}

// errChanged says that somebody else has changed what a batch was decided upon.
var errChanged = errors.New("store: a session, or a tenant's agents, are not as they are held")

// care is what a try to make a transaction of a batch takes for granted.
type care uint8

const (
	// supposing: what should be new is not there. A session whose id was made for it is not
	// looked for, and new rows are inserted where others replace what is there. It is how the
	// first try goes, where a look would be another round trip; if a row is there after all, it
	// is refused, and the writer tries again.
	supposing care = iota + 1
	// careful: nothing is supposed.
	careful
	// rereading comes after errChanged. Nothing is supposed, and the agents of tenants, which
	// the database has only compared before, are read.
	rereading
)

// transact makes one transaction of a batch. If somebody else has changed what it was decided
// upon, it is made again upon what is there now.
func (c *committer) transact(ctx context.Context, queued []*Pending) (b *batch, answers []decided, err error) {
	care := supposing
	if c.Alone() {
		care = careful
	}
	try := func(tx transaction) (err error) {
		b.spoil() // a first try came to nothing
		b = c.newBatch(tx)
		b.care, care = care, max(care, careful)
		if c.Standby != nil && !queued[0].alone {
			b.standby = c.Standby()
		}
		answers, err = b.carryOut(ctx, queued)
		return err
	}
	if err = c.writer.transact(ctx, try); errors.Is(err, errChanged) {
		b.contest()
		b, care = nil, rereading
		err = c.writer.transact(ctx, try)
	}
	if err != nil {
		b.spoil()
	}
	return b, answers, err
}

// refusals gives the reasons of what was refused.
func refusals(answers []decided) (reasons []string) {
	for _, a := range answers {
		if known, ok := errors.AsType[*tree.Error](a.err); ok {
			reasons = append(reasons, known.Reason())
		}
	}
	return reasons
}

// notSpawned gives why clients were refused children. Of the calls of agents the
// decisions tell, since they are carried out.
func notSpawned(queued []*Pending, answers []decided) (verdicts []tree.Verdict) {
	for i, p := range queued {
		if _, wish := p.cmd.(tree.SpawnTask); !wish {
			continue
		}
		if known, ok := errors.AsType[*tree.Error](answers[i].err); ok {
			verdicts = append(verdicts, tree.Verdict{Kind: tree.KindAgent, Refused: known.Reason()})
		}
	}
	return verdicts
}

// shown is what those are told whose transaction failed.
func shown(err error) error {
	var known *tree.Error
	switch {
	case errors.Is(err, errDefect):
		return errDefect
	case errors.Is(err, ErrUnavailable) && errors.As(err, &known):
		return known
	}
	return ErrUnavailable.With("the database did not take the transaction")
}

// errDefect says that a decision panicked. Trying again would not help.
var errDefect = errors.New("store: a decision failed")

// decided is the outcome of one command.
type decided struct {
	answer   tree.Answer
	err      error
	opened   *opened       // nil if it has not opened a session
	taken    *tree.Claimed // a run in the place of the one that was given back
	notTaken error         // why it is not the one that was asked for
}

// claimed gives the run that a worker has got, if it has got one.
func (d *decided) claimed() *tree.Claimed {
	if claimed, ok := d.answer.(*tree.Claimed); ok {
		return claimed
	}
	return d.taken
}

// carryOut does all the work between BEGIN and COMMIT.
func (b *batch) carryOut(ctx context.Context, queued []*Pending) (answers []decided, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errDefect, p, debug.Stack())
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
	if err := b.claimForStandby(ctx); err != nil {
		return nil, err
	}
	if err := b.save(ctx); err != nil {
		return nil, fmt.Errorf("writing: %w", err)
	}
	return answers, nil
}

// prefetch reads what the commands need, all of them together, as far as can be
// told before the first is decided.
func (b *batch) prefetch(ctx context.Context, queued []*Pending) error {
	if err := b.loadFirst(ctx, queued); err != nil {
		return err
	}
	for {
		var wanted []want
		for _, p := range queued {
			for id, cmd := range p.commands() {
				if missing := b.sessions[id].view.Missing(cmd); !missing.Empty() {
					wanted = append(wanted, want{id, missing})
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
		return decided{}, p.step(ctx, b)
	}
	if p.key != nil {
		if r := b.once[requestKey{p.session, p.key.Key}]; r != nil {
			return r.repeat(p.key.Hash), nil
		}
	}
	if claim, ok := p.cmd.(tree.Claim); ok {
		got, refused, err := b.claim(ctx, p.session, claim)
		if got == nil {
			return decided{err: refused}, err
		}
		if p.slot != nil {
			b.given = append(b.given, given{p.slot, got, true})
		}
		return decided{answer: got}, err
	}
	if b.otherAgents(p) {
		return decided{err: ErrAgentsChanged}, nil
	}
	answer, refused, err := b.apply(ctx, p.session, p.cmd)
	if err != nil || refused != nil {
		return decided{err: refused}, err
	}
	if p.key != nil {
		key := requestKey{p.session, p.key.Key}
		b.once[key] = &request{hash: p.key.Hash, answer: answer}
		b.answered = append(b.answered, key)
	}
	taken, notTaken, err := b.fillSlot(ctx, p, answer)
	return decided{answer, nil, openedBy(b.sessions[p.session].view, answer), taken, notTaken}, err
}

// apply lets a command be decided upon its session. The second error fails the whole
// batch.
func (b *batch) apply(ctx context.Context, id tree.SessionID, cmd tree.Command) (answer tree.Answer, refused, err error) {
	view := b.sessions[id].view
	// An earlier command of the batch may have led to rows that were not foreseen.
	for missing := view.Missing(cmd); !missing.Empty(); missing = view.Missing(cmd) {
		if err := b.load(ctx, []want{{id, missing}}); err != nil {
			return nil, nil, fmt.Errorf("reading: %w", err)
		}
	}
	answer, refused = tree.Decide(view, tree.Env{Now: b.timeIn(view), NewID: b.NewID, Replica: b.Replica, Unmeasured: b.Unmeasured}, cmd)
	return answer, refused, nil
}

// told says what the batch has changed.
func (b *batch) told() Commit {
	c := Commit{Ready: b.ready, Sessions: make([]Touched, 0, len(b.order))}
	for _, id := range b.order {
		v := b.sessions[id].view
		changes := v.Changes()
		c.Revoked = append(c.Revoked, changes.Revoked...)
		c.Released = append(c.Released, changes.Released...)
		for i := range changes.Passed {
			c.Passed = append(c.Passed, Passed{id, &changes.Passed[i]})
		}
		c.Verdicts = append(c.Verdicts, changes.Verdicts...)
		for _, m := range changes.Messages {
			if m.Usage.Cost > 0 {
				c.Spent = append(c.Spent, Spent{m.Model, m.Usage.Cost})
			}
		}
		if len(changes.Events) == 0 {
			continue
		}
		touched := Touched{Session: id, LastSeq: v.Session().NextSeq - 1, Events: b.events[id], Begun: b.begun(id)}
		for _, r := range changes.Runs {
			touched.Ended = append(touched.Ended, r.Task)
		}
		if len(touched.Ended) > 0 {
			touched.End = b.ends(id, *changes)
		}
		c.Sessions = append(c.Sessions, touched)
		c.Room = c.Room || b.sessions[id].madeRoom(changes)
	}
	return c
}
