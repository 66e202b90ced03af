package store

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// batch is the work of one transaction.
type batch struct {
	*committer
	tx             transaction
	now            time.Time
	sessions       map[tree.SessionID]*cachedSession
	order          []tree.SessionID // the keys of sessions, in order of arrival
	virtualTime    int64
	requests       map[requestKey]*request // by key; nil: not answered before
	newRequests    []requestKey            // requests that this batch was the first to answer
	ready          []Ready
	events         map[tree.SessionID][][]byte // as they are stored
	agents         map[string]*[]AgentVersion  // of the tenants whose runs are claimed or whose sessions are opened
	locked         bool                        // the existing sessions are locked, or will be with the next statements; see locking.go
	resultsMissing bool                        // rows of loadLater did not arrive: the connection was lost after the commit
	mode           commitMode
	standby        Standby // nil: no slot stands by
	assignments    []slotAssignment

	announced, waiting int           // counts of ready runs, for announceWindow
	gone               []tree.TaskID // runs that are claimed, or not ready any more
}

func (c *committer) newBatch(tx transaction) *batch {
	return &batch{
		committer: c, tx: tx, sessions: map[tree.SessionID]*cachedSession{}, events: map[tree.SessionID][][]byte{},
		requests: map[requestKey]*request{}, agents: c.knownAgents(),
	}
}

// commit makes one transaction of a batch, reports the changes, and answers all callers. If the
// database refuses the batch, each command gets a transaction of its own, so that only the one at
// fault is refused.
func (c *committer) commit(ctx context.Context, queued []*Pending) {
	began := time.Now()
	b, answers, err := c.transact(ctx, queued)
	if err != nil {
		if errors.Is(err, errNotSynced) {
			c.fail(err)
		}
		c.Logger.ErrorContext(ctx, "a transaction failed", "commands", len(queued), "error", err)
		c.mirror.suspend(time.Time{}) // it may have been stored
		if !errors.Is(err, ErrUnavailable) && c.commitSeparately(ctx, queued, err) {
			return
		}
		for _, p := range queued {
			if !p.isDone() {
				p.complete(commandResult{err: publicError(err)}, CachedConversation{})
			}
		}
		return
	}
	// The order matters, from stored on. A caller that is answered may read at once what OnCommit was
	// told, so it is notified before. Caching the sessions clears their changes, which notify reports,
	// so it comes last.
	b.notify(queued, answers, began)
	b.answer(queued, answers, false)
	b.cacheSessions()
}

// updateCaches caches what a claim may need soon, and takes in which runs are ready.
func (b *batch) updateCaches() {
	held := false
	for _, id := range b.order {
		view := b.sessions[id].view
		changes := view.Changes()
		b.firstMessages.put(id, changes.Messages)
		b.tails.put(id, changes, b.held)
		b.prompts.put(id, view)
		s := view.Session()
		held = held || s != nil && s.Pending > 0 && holdsBack(s)
	}
	b.mirror.committed(b.Store.now(), b.gone, b.ready, held)
	b.window.committed(b.announced, b.waiting, len(b.gone))
}

// notify tells the slots that got runs, and then calls OnCommit.
func (b *batch) notify(queued []*Pending, answers []commandResult, began time.Time) {
	b.notifySlots(false)
	told := b.summary()
	told.Commands, told.Refused, told.Took = len(queued), refusals(answers), time.Since(began)
	if !b.SkipMetrics {
		told.SpawnOutcomes = append(told.SpawnOutcomes, refusedSpawns(queued, answers)...)
	}
	b.OnCommit(told)
}

// answer answers the callers that begin a run early, or all others, with the cached conversations of
// the runs that they claimed.
func (b *batch) answer(queued []*Pending, answers []commandResult, early bool) {
	for i, p := range queued {
		if p.early != early {
			continue
		}
		var known CachedConversation
		if p.slot == nil {
			known = b.cachedConversation(answers[i].claimed())
		}
		p.complete(answers[i], known)
	}
}

// cacheSessions keeps the sessions for the next batches.
func (b *batch) cacheSessions() {
	for _, id := range b.order {
		b.sessionCache.put(id, b.sessions[id])
	}
}

// commitSeparately commits in smaller parts what the database has refused: each command alone and
// without standby slots, or a single command without the run that it would claim next. It returns
// false if there is no smaller part.
func (c *committer) commitSeparately(ctx context.Context, queued []*Pending, refused error) bool {
	switch offer := queued[0].offer; {
	case len(queued) > 1 || !queued[0].isolated:
	case offer != nil && offer.refused == nil:
		offer.refused = publicError(refused)
	default:
		return false
	}
	for _, p := range queued {
		p.isolated = true
		c.commit(ctx, []*Pending{p})
	}
	return true
}

// errChanged says that another transaction, of this replica or another one, has changed what a
// batch was decided on.
var errChanged = errors.New("store: a session, or a tenant's agents, are not as they are held")

// commitMode says what an attempt at a transaction assumes.
type commitMode uint8

const (
	// modeOptimistic assumes that what should be new does not exist. A session with a generated id
	// is not looked up, and new rows are inserted, not upserted. It is the mode of the first
	// attempt where a lookup costs a round trip. If a row exists after all, the insert is refused
	// and the writer tries again.
	modeOptimistic commitMode = iota + 1
	// modeConservative assumes nothing.
	modeConservative
	// modeReread follows errChanged. It assumes nothing, and also reads the agents of tenants,
	// which were only compared before.
	modeReread
)

// transact makes one transaction of a batch. If another transaction has changed what it was decided
// on, the batch is decided again on the current state.
func (c *committer) transact(ctx context.Context, queued []*Pending) (b *batch, answers []commandResult, err error) {
	care := modeOptimistic
	if c.Exclusive() {
		care = modeConservative
	}
	try := func(tx transaction) (err error) {
		b.discardSessions() // of a failed attempt
		b = c.newBatch(tx)
		b.mode, care = care, max(care, modeConservative)
		if c.Standby != nil && !queued[0].isolated {
			b.standby = c.Standby()
		}
		answers, err = b.execute(ctx, queued)
		return err
	}
	stored := func() { b.stored(queued, answers) }
	if err = c.writer.transact(ctx, try, stored); errors.Is(err, errChanged) {
		b.markSessionsDirty()
		b, care = nil, modeReread
		err = c.writer.transact(ctx, try, stored)
	}
	if err != nil {
		b.discardSessions()
		c.agents = nil
	}
	return b, answers, err
}

// refusals gives the reasons of the refused commands.
func refusals(answers []commandResult) (reasons []string) {
	for _, a := range answers {
		if known, ok := errors.AsType[*tree.Error](a.err); ok {
			reasons = append(reasons, known.Reason())
		}
	}
	return reasons
}

// refusedSpawns gives the refusals of children that clients asked for. Those that agents ask for
// are reported by the decisions themselves, because their commands are carried out.
func refusedSpawns(queued []*Pending, answers []commandResult) (verdicts []tree.SpawnOutcome) {
	for i, p := range queued {
		if _, wish := p.cmd.(tree.SpawnTask); !wish {
			continue
		}
		if known, ok := errors.AsType[*tree.Error](answers[i].err); ok {
			verdicts = append(verdicts, tree.SpawnOutcome{Kind: tree.KindAgent, Refused: known.Reason()})
		}
	}
	return verdicts
}

// publicError is the error for the callers of a failed transaction. Details are only logged.
func publicError(err error) error {
	var known *tree.Error
	switch {
	case errors.Is(err, errDefect):
		return errDefect
	case errors.Is(err, ErrUnavailable) && errors.As(err, &known):
		return known
	}
	return ErrUnavailable.With("the database did not accept the transaction")
}

// errDefect says that a decision panicked. A retry would not help.
var errDefect = errors.New("store: a decision failed")

// commandResult is the outcome of one command.
type commandResult struct {
	answer  tree.Answer
	err     error
	opened  *openedSession // nil unless it opened a session
	nextRun *tree.Claimed  // claimed in place of the run that was given back
	nextErr error          // why the requested next run was refused
}

// claimed gives the run that the worker got; nil if it got none.
func (d *commandResult) claimed() *tree.Claimed {
	if claimed, ok := d.answer.(*tree.Claimed); ok {
		return claimed
	}
	return d.nextRun
}

// execute does all the work between BEGIN and COMMIT.
func (b *batch) execute(ctx context.Context, queued []*Pending) (answers []commandResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errDefect, p, debug.Stack())
		}
	}()
	if err := b.prefetch(ctx, queued); err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	answers = make([]commandResult, len(queued))
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

// prefetch reads the rows that the commands need, as far as they are known before the first command
// is decided, in as few round trips as possible.
func (b *batch) prefetch(ctx context.Context, queued []*Pending) error {
	if err := b.loadFirst(ctx, queued); err != nil {
		return err
	}
	if err := b.listUnknown(ctx); err != nil {
		return err
	}
	for {
		var wanted []sessionNeeds
		for id, cmd := range foreseen(queued) {
			if missing := b.sessions[id].view.Missing(cmd); !missing.Empty() {
				wanted = append(wanted, sessionNeeds{id, missing})
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

// decide decides one command. The error fails the whole batch.
func (b *batch) decide(ctx context.Context, p *Pending) (commandResult, error) {
	if p.cmd == nil {
		return commandResult{}, p.step(ctx, b)
	}
	if r := b.answered(p); r != nil {
		return r.replay(p.key.Hash), nil
	}
	if claim, ok := p.cmd.(tree.Claim); ok {
		got, refused, err := b.claim(ctx, p.session, claim)
		if got == nil {
			return commandResult{err: refused}, err
		}
		if p.slot != nil {
			b.assignments = append(b.assignments, slotAssignment{p.slot, got, true})
		}
		return commandResult{answer: got}, err
	}
	if b.agentsDiffer(p) {
		return commandResult{err: ErrAgentsChanged}, nil
	}
	answer, refused, err := b.apply(ctx, p.session, p.cmd)
	if err != nil || refused != nil {
		return commandResult{err: refused}, err
	}
	if p.key != nil {
		key := requestKey{p.session, p.key.Key}
		b.requests[key] = &request{hash: p.key.Hash, answer: answer}
		b.newRequests = append(b.newRequests, key)
	}
	taken, notTaken, err := b.fillSlot(ctx, p, answer)
	return commandResult{answer, nil, newOpenedSession(b.sessions[p.session].view, answer), taken, notTaken}, err
}

// apply decides a command on its session. The second error fails the whole batch.
func (b *batch) apply(ctx context.Context, id tree.SessionID, cmd tree.Command) (answer tree.Answer, refused, err error) {
	view := b.sessions[id].view
	// An earlier command of the batch may have led to rows that were not prefetched.
	for missing := view.Missing(cmd); !missing.Empty(); missing = view.Missing(cmd) {
		if err := b.load(ctx, []sessionNeeds{{id, missing}}); err != nil {
			return nil, nil, fmt.Errorf("reading: %w", err)
		}
	}
	answer, refused = tree.Decide(view, b.env(view), cmd)
	return answer, refused, nil
}

// env is what decisions on a session get besides its state.
func (b *batch) env(v *tree.View) tree.Env {
	now, newID := b.sessionNow(v), b.NewID
	if newID == nil {
		newID = func() [16]byte { return b.ids.next(now) }
	}
	return tree.Env{Now: now, NewID: newID, Replica: b.Replica, SkipMetrics: b.SkipMetrics}
}

// summary describes what the batch has changed.
func (b *batch) summary() Commit {
	c := Commit{Ready: b.ready, Sessions: make([]SessionUpdate, 0, len(b.order))}
	for _, id := range b.order {
		v := b.sessions[id].view
		changes := v.Changes()
		c.Revoked = append(c.Revoked, changes.Revoked...)
		c.Released = append(c.Released, changes.Released...)
		for i := range changes.Phases {
			c.Phases = append(c.Phases, CompletedPhase{id, &changes.Phases[i]})
		}
		c.SpawnOutcomes = append(c.SpawnOutcomes, changes.SpawnOutcomes...)
		for _, m := range changes.Messages {
			if m.Usage.Cost > 0 {
				c.Costs = append(c.Costs, ModelCost{m.Model, m.Usage.Cost})
			}
		}
		if len(changes.Events) == 0 {
			continue
		}
		s := v.Session()
		touched := SessionUpdate{Session: id, LastSeq: s.NextSeq - 1, Events: b.events[id], RootStart: b.rootStart(id), Closed: !s.ClosedAt.IsZero()}
		for _, r := range changes.Runs {
			touched.Ended = append(touched.Ended, r.Task)
		}
		if len(touched.Ended) > 0 {
			touched.EndOf = b.ends(id, *changes)
		}
		c.Sessions = append(c.Sessions, touched)
		c.Room = c.Room || b.sessions[id].madeRoom(changes)
	}
	return c
}
