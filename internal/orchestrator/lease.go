package orchestrator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coppice-run/coppice/internal/alive"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// lease is an attempt of this replica. Its life:
//
//	expect, expectAny  a stream has asked for the attempt, or may get it; until settle
//	hold               the attempt is on the stream
//	dropAttempt        it is over: off the stream and forgotten
//	abandon            off the stream and forgotten; the run is offered to others
//	detach             its stream broke. The attempt is held for the grace (awaitReattach), in
//	                   which its worker may come back over another stream. After that the run
//	                   is offered to others and the attempt is forgotten (endGrace).
//	handleLateGrant    it was granted too late for its stream. If its worker knows of it, as
//	                   for detach; otherwise the run is offered to others.
//
// handOver offers a run to others. An attempt that is ended from outside is marked as revoked, and
// its stream drops it.
type lease struct {
	session   tree.SessionID
	task      tree.TaskID
	tenant    string
	version   string // of the agent's definition
	run       int
	token     tree.Token
	attach    int
	worker    workerInfo
	storedSeq int64 // requests up to here were stored before this stream

	agentsSent atomic.Pointer[sentAgents] // what the worker was told about agents; nil: nothing
	lastHeard  atomic.Int64               // when the worker last sent a request, in Unix nanoseconds; 0: a command, which may be silent for long

	// Guarded by leases.
	changed        chan<- struct{} // signals the stream that revoked or releaseMessage has changed
	revoked        bool            // the attempt was ended from outside
	releaseMessage int             // the message whose commands are to continue in the background, until the worker is told; or 0

	// How far the worker knows the transcript. Only the sender uses these.
	seenOrdinal int
	callsOpened int
	callsClosed map[int]bool // calls of the last message that the worker closed itself
}

// workerInfo is what the worker of a run has said about itself: its id and its features.
type workerInfo struct {
	id string
	wire.Features
}

// newLease returns the lease of an attempt whose worker knows the whole transcript.
func newLease(t *tree.Task, tenant string, worker workerInfo) *lease {
	l := &lease{
		session: t.Session, task: t.ID, tenant: tenant, version: t.AgentVersion, run: t.Run, token: t.Token(), attach: t.Attach,
		worker: worker, seenOrdinal: t.NextOrdinal - 1, callsClosed: map[int]bool{},
	}
	if since := t.LastReport(); t.Kind == tree.KindAgent && !since.IsZero() {
		l.lastHeard.Store(since.UnixNano())
	}
	return l
}

// touch records that the worker has sent a request.
func (a *lease) touch(now time.Time) {
	if a.lastHeard.Load() != 0 {
		a.lastHeard.Store(now.UnixNano())
	}
}

// hold puts an expected attempt on the stream. It reports false if the stream accepts none any
// more.
func (l *slot) hold(next *lease, expected *expectation) bool {
	if !l.state.putLease(next) {
		return false
	}
	l.svc.leases.add(next, expected, l.leaseChanged)
	return true
}

// dropAttempt takes the attempt off the stream, if there is one.
func (l *slot) dropAttempt() {
	if last := l.state.clearLease(); last != nil {
		l.svc.leases.drop(last)
	}
}

// abandon drops the attempt on the stream, if there is one, and offers its run to others.
func (l *slot) abandon(blame bool) {
	if lease := l.state.currentLease(); lease != nil {
		l.dropAttempt()
		signal(l.svc.backlog.changed)
		l.svc.handOver(lease, blame)
	}
}

// detach releases the attempt of a broken stream, if there is one. Its worker may come back for it
// within the grace, unless the worker is found dead. If that finding is wrong, the worker is
// refused when it comes back, because the run has the next epoch by then; only its call of the
// model is lost.
func (l *slot) detach() {
	lease := l.state.currentLease()
	if lease == nil {
		// If the worker is dead, the hints that it has read are recovered.
		l.state.currentWorker().IfDead(l.svc.Grace, func() {})
		return
	}
	if !lease.worker.Has(wire.FeatureReattach) {
		l.abandon(true)
		return
	}
	l.state.clearLease()
	l.svc.awaitReattach(l.state.currentWorker(), lease)
}

// checkLateGrant handles an attempt that a request was granted while its stream broke.
func (l *slot) checkLateGrant(a *exchange) {
	if !a.mayGrant || a.err != nil {
		return
	}
	answer, err := a.pending.Wait(context.Background())
	if err != nil {
		return // no attempt was granted
	}
	switch granted := answer.(type) {
	case *tree.Claimed:
		claim := a.req.GetClaim()
		l.svc.handleLateGrant(newLease(&granted.Task, granted.Tenant, workerInfo{claim.GetWorkerId(), claim.GetFeatures()}), a.expected, a.worker, true)
	case tree.ParkedRun, tree.Ended:
		if taken := l.claimedInRequest(context.Background(), a); taken != nil {
			l.svc.handleLateGrant(newLease(&taken.Task, taken.Tenant, a.offeredBy), a.expected, a.worker, a.offeredBy.Has(wire.FeatureGiven))
		}
	}
}

// handleLateGrant handles an attempt that was granted too late for its stream. known says whether
// the worker knows of it: it has claimed the run, or will ask what it was given with the end of its
// last run. A worker that knows of the attempt comes back for it over another stream, unless it is
// dead. If known is false, the run is offered to others at once.
func (s *Service) handleLateGrant(held *lease, expected *expectation, worker *alive.Worker, known bool) {
	if !known {
		s.handOver(held, false)
		return
	}
	s.leases.add(held, expected, make(chan struct{}, 1))
	s.awaitReattach(worker, held)
}

// graceSteps is in how many steps the grace passes. A pause of this process or of its whole machine
// costs a worker one step at most, because the worker could not come back meanwhile.
const graceSteps = 4

// awaitReattach gives a worker the grace to come back for an attempt, or less if the worker is
// found dead.
func (s *Service) awaitReattach(worker *alive.Worker, lease *lease) {
	dead := make(chan struct{})
	worker.IfDead(s.Grace, func() { close(dead) })
	go func() {
		if s.passGrace(dead) {
			s.endGrace(lease, dead)
		}
	}()
}

// passGrace waits for the grace, or until dead is closed. It reports false if this replica stops:
// other replicas offer the run then. While the database is away, no worker can come back, so the
// grace begins again once the database is back.
func (s *Service) passGrace(dead <-chan struct{}) bool {
	step := time.NewTicker(s.Grace / graceSteps)
	defer step.Stop()
	for passed := 0; passed < graceSteps; {
		select {
		case <-step.C:
			if passed++; s.contact.isInterrupted(s.Now()) {
				passed = 0
			}
		case <-dead:
			return true
		case <-s.stopping:
			return false
		}
	}
	return true
}

// endGrace offers a run to others whose worker did not come back. The attempt is held until that is
// stored, so that the sweep does not offer the run too. If it cannot be stored, the worker could
// not come back either, and gets the grace again.
func (s *Service) endGrace(lease *lease, dead <-chan struct{}) {
	for !s.handOver(lease, true) {
		select {
		case <-time.After(sweepInterval):
		case <-s.stopping:
			return
		}
		if !s.passGrace(dead) {
			return
		}
	}
	s.leases.drop(lease)
}

// handOverTimeout bounds how long it may take to store the end of an attempt.
const handOverTimeout = 10 * time.Second

// handOver offers a run to others, and reports whether that was stored.
func (s *Service) handOver(lease *lease, blame bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	_, err := s.Store.Update(ctx, lease.session, tree.Redeliver{
		Task: lease.task, Epoch: lease.token.Epoch, Attach: lease.attach, Blame: blame,
	})
	if err = ignoreRedelivered(err); err != nil {
		// The sweep finds the attempt and tries again.
		s.Logger.WarnContext(ctx, "redelivering a run failed", "session_id", lease.session, "task_id", lease.task, "error", err)
	}
	return err == nil
}
