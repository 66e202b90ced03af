package orchestrator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coppice-run/coppice/internal/alive"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// lease is an attempt of this replica. This is how one comes and goes:
//
//	expect, expectAny  a stream asks for it, or may get it; until settled
//	hold               it is on the stream
//	letGo              it is over: off the stream and forgotten
//	abandon            off the stream and forgotten; others get the run
//	detach             its stream broke: it is held for the grace (waitFor), in which its
//	                   worker may come back for it over another stream; then others get
//	                   the run and it is forgotten (graceOver)
//	strand             it was granted too late for its stream: as detach if its worker
//	                   will come for it, otherwise others get the run
//
// Others get a run by handOver. An attempt that is ended from outside is marked as gone,
// and its stream lets go of it.
type lease struct {
	session   tree.SessionID
	task      tree.TaskID
	tenant    string
	version   string // of the agent
	run       int
	token     tree.Token
	attach    int
	worker    workerInfo
	storedSeq int64 // requests up to here were stored before this stream

	agentsSent atomic.Pointer[sentAgents] // that the worker was told of; nil: none
	lastHeard  atomic.Int64               // when the worker last asked for something, in nanoseconds; 0: it is no agent's, and may say nothing for long

	// These are guarded by leases.
	changed        chan<- struct{} // tells the stream that one of the others has changed
	revoked        bool            // it was ended from outside
	releaseMessage int             // the message whose commands are to go on in the background, of which the worker is to be told; or 0

	// How far the worker knows the transcript; only the sender looks at these.
	seenOrdinal int
	callsOpened int
	callsClosed map[int]bool // calls of the last message that the worker closed itself
}

// workerInfo is the worker of a run, as far as it has said who it is and what it can do.
type workerInfo struct {
	id string
	wire.Features
}

// newLease is for a run whose worker knows all of the transcript that there is.
func newLease(t *tree.Task, tenant string, by workerInfo) *lease {
	l := &lease{
		session: t.Session, task: t.ID, tenant: tenant, version: t.AgentVersion, run: t.Run, token: t.Token(), attach: t.Attach,
		worker: by, seenOrdinal: t.NextOrdinal - 1, callsClosed: map[int]bool{},
	}
	if since := t.LastReport(); t.Kind == tree.KindAgent && !since.IsZero() {
		l.lastHeard.Store(since.UnixNano())
	}
	return l
}

// touch notes that the worker has asked for something.
func (a *lease) touch(now time.Time) {
	if a.lastHeard.Load() != 0 {
		a.lastHeard.Store(now.UnixNano())
	}
}

// hold puts an attempt on the stream that was expected. It reports false if the stream
// takes none any more.
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

// abandon offers the run to others, if an attempt is on the stream.
func (l *slot) abandon(blame bool) {
	if lease := l.state.currentLease(); lease != nil {
		l.dropAttempt()
		signal(l.svc.backlog.changed)
		l.svc.handOver(lease, blame)
	}
}

// detach lets go of the attempt on the stream, if there is one: its worker may
// come back for it within the grace, unless it is found to be dead. If that is wrong,
// the worker that comes back is refused, since the run is under the next epoch, and
// what is lost is its call of the model.
func (l *slot) detach() {
	lease := l.state.currentLease()
	if lease == nil {
		// A worker that is dead may have read hints that nobody else hears of.
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

// checkLateGrant sees to an attempt that a request has been granted while its stream broke.
func (l *slot) checkLateGrant(a *exchange) {
	if !a.mayGrant || a.err != nil {
		return
	}
	answer, err := a.pending.Wait(context.Background())
	if err != nil {
		return // nothing was granted
	}
	switch granted := answer.(type) {
	case *tree.Claimed:
		claim := a.req.GetClaim()
		l.svc.handleLateGrant(newLease(&granted.Task, granted.Tenant, workerInfo{claim.GetWorkerId(), claim.GetFeatures()}), a.expected, a.worker, true)
	case tree.ParkedRun, tree.Ended:
		if taken := l.runTakenWith(context.Background(), a); taken != nil {
			l.svc.handleLateGrant(newLease(&taken.Task, taken.Tenant, a.offeredBy), a.expected, a.worker, a.offeredBy.Has(wire.FeatureGiven))
		}
	}
}

// handleLateGrant sees to an attempt that was granted too late for its stream. A worker to which it is
// known comes for it over another one, unless it is dead: it has claimed it, or asks what it was
// given with its last end. For one that it does not know of nobody comes.
func (s *Service) handleLateGrant(held *lease, expected *expectation, worker *alive.Worker, known bool) {
	if !known {
		s.handOver(held, false)
		return
	}
	s.leases.add(held, expected, make(chan struct{}, 1))
	s.awaitReattach(worker, held)
}

// awaitReattach gives a worker the grace to come back for an attempt, unless it is found to be
// dead.
func (s *Service) awaitReattach(worker *alive.Worker, lease *lease) {
	over := time.AfterFunc(s.Grace, func() { s.endGrace(lease) })
	worker.IfDead(s.Grace, func() {
		if over.Stop() {
			over.Reset(0)
		}
	})
}

// endGrace offers a run to others whose worker has not come back, or can't. The attempt is
// held until that is done, so that nobody else sees to it.
func (s *Service) endGrace(lease *lease) {
	select {
	case <-s.stopping:
		return // other replicas see to it
	default:
	}
	if s.handOver(lease, true) {
		s.leases.drop(lease)
		return
	}
	time.AfterFunc(heartbeatInterval, func() { s.endGrace(lease) })
}

// handOverTimeout bounds how long the end of a stream may take to be recorded.
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
		s.Logger.WarnContext(ctx, "handing a run over failed", "session_id", lease.session, "task_id", lease.task, "error", err)
	}
	return err == nil
}
