package orchestrator

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/alive"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// errUnsupportedProtocol refuses a worker whose protocol version is not supported here.
var errUnsupportedProtocol = errors.New("the protocol version of the worker is not supported")

// DefaultGrace is how long an attempt whose stream broke may take to continue over another stream.
const DefaultGrace = 3 * time.Second

// workWindow is how many requests of a stream may be unanswered.
const workWindow = 256

// WorkStream is the stream of one slot of a worker.
type WorkStream interface {
	Context() context.Context
	Send(*pb.WorkResponse) error
	Recv() (*pb.WorkRequest, error)
}

// exchange is a request whose answer is not sent yet.
type exchange struct {
	req     *pb.WorkRequest
	pending *store.Pending
	err     error  // the request was refused before it was submitted
	lease   *lease // the attempt that the request is about; nil for a claim or a reattachment

	expected    *expectation  // for a claim, a reattachment, or a run that replaces the slot's own
	mayGrant    bool          // the request may grant an attempt: its outcome is awaited even if the stream breaks
	worker      *alive.Worker // the worker that sent the request
	offeredBy   workerInfo    // the worker that offered its slot
	replacement queuedRun     // the run that is to replace the slot's own, until the outcome is known; zero: none
}

// slot serves one stream. One goroutine receives requests and submits them; another waits for the
// answers in the same order and sends them. Requests reach the store in the order in which they
// arrived, so a worker need not wait for one answer before it sends the next request. next_run.go
// says how a slot gets its runs.
type slot struct {
	svc          *Service
	stream       WorkStream
	local        bool // the worker is in this process
	state        slotState
	exchanges    chan *exchange
	claiming     atomic.Bool // a claim or a reattachment is in progress
	silence      wire.Silence
	beats        atomic.Bool // the worker sends heartbeats: silence means that the stream is broken
	failed       chan error  // holds one: why the stream can't continue
	sending      sync.Mutex
	leaseChanged chan struct{} // holds one: check whether the attempt was revoked, or its commands released
	drains       chan struct{} // holds one: tell the worker to drain
	endedCleanly atomic.Bool   // the worker ended the stream in good order
	onStandby    atomic.Pointer[standbySlot]
	// standbyEnds holds one: the outcome of the slot's standby.
	standbyEnds chan standbyEnd
	unqueued    []*store.Pending // prepared requests that are queued with the next one; only the receiver uses them
}

// Work serves a worker's stream until it ends. If an attempt is still on the stream then, its
// worker may continue it over another stream. If the worker does not, the run is offered to others.
// local says that the worker is in this process.
func (s *Service) Work(stream WorkStream, local bool) error {
	s.slots.add()
	signal(s.backlog.changed)
	l := &slot{
		svc: s, stream: stream, local: local, exchanges: make(chan *exchange, workWindow), state: slotState{slots: &s.slots, counted: true},
		failed: make(chan error, 1), leaseChanged: make(chan struct{}, 1), drains: make(chan struct{}, 1),
		standbyEnds: make(chan standbyEnd, 1),
	}
	s.registry.addStream(l)
	err := l.serve()
	l.end(err == nil)
	return err
}

// serve returns nil when the stream has ended in good order, and an error when it can't continue.
// Work then returns, which ends the other goroutines. What was submitted may still be stored; the
// worker learns of it when it reattaches.
func (l *slot) serve() error {
	s := l.svc
	if err := l.send(&pb.WorkResponse{Kind: &pb.WorkResponse_Welcome{Welcome: &pb.Welcome{
		InstallationId: s.Store.Installation(), ReplicaId: s.Replica, Window: workWindow,
		Protocol: wire.Protocol, OldestProtocol: wire.OldestProtocol,
		Features: wire.ReplicaFeatures(), Grace: durationpb.New(s.Grace),
	}}}); err != nil {
		return err
	}
	answered, received := make(chan struct{}), make(chan error, 1)
	s.serving.Go(func() {
		defer close(answered)
		l.sendAnswers()
	})
	s.serving.Go(func() {
		defer close(l.exchanges)
		received <- l.receiveRequests()
	})
	s.serving.Go(l.sendHeartbeats)
	tick := time.NewTicker(wire.HeartbeatInterval)
	defer tick.Stop()
	var allAnswered <-chan struct{} // closed once all answers are sent to a worker that has closed its side
	for {
		select {
		case err := <-received:
			if !errors.Is(err, io.EOF) {
				return err // the worker does not read, so no more answers can be sent
			}
			allAnswered = answered
		case <-allAnswered:
			return nil
		case err := <-l.failed:
			return err
		case <-s.stopping:
			return tree.ErrStopping
		case <-tick.C:
			if l.silence.Tick() && l.beats.Load() {
				return tree.ErrUnavailable.With("the worker sends nothing, not even heartbeats")
			}
		}
	}
}

// end takes the stream down: first it refuses new attempts, then it removes the current one. The
// worker stays set until its liveness check has started.
func (l *slot) end(cleanly bool) {
	l.endedCleanly.Store(cleanly)
	l.state.close()
	l.standDown()
	if cleanly {
		l.abandon(false)
	} else {
		l.detach()
	}
	l.svc.registry.removeStream(l)
	l.state.releaseWorker()
	l.state.uncount()
}

// sendHeartbeats sends heartbeats to the worker until the stream ends.
func (l *slot) sendHeartbeats() {
	tick := time.NewTicker(wire.HeartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if l.send(&pb.WorkResponse{Kind: &pb.WorkResponse_Heartbeat{Heartbeat: &pb.Heartbeat{}}}) != nil {
				return
			}
		case <-l.stream.Context().Done():
			return
		}
	}
}

// send sends one response. It is safe for concurrent use.
func (l *slot) send(r *pb.WorkResponse) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	if large := wire.Announcement(r.SizeVT()); large != nil {
		if err := l.stream.Send(&pb.WorkResponse{Kind: &pb.WorkResponse_Heartbeat{Heartbeat: large}}); err != nil {
			return err
		}
	}
	return l.stream.Send(r)
}

// receiveRequests submits the worker's requests until the stream ends.
func (l *slot) receiveRequests() error {
	for {
		req, err := l.stream.Recv()
		if err != nil {
			return err
		}
		l.silence.Break(req.GetHeartbeat())
		switch k := req.GetKind().(type) {
		case *pb.WorkRequest_Heartbeat:
			l.beats.Store(true)
			continue
		case *pb.WorkRequest_Hello:
			l.handleHello(k.Hello)
			continue
		case *pb.WorkRequest_StandDown:
			l.standDown()
			continue
		case *pb.WorkRequest_StandBy:
			if err := l.handleStandBy(req); err != nil {
				return err
			}
			continue
		case *pb.WorkRequest_Delta:
			l.publishDelta(k.Delta)
			continue
		}
		if shows := req.GetShows(); shows != nil {
			l.publishDelta(shows)
		}
		a, wanted, err := l.submit(req)
		if err == nil && (!req.GetMore() || a.mayGrant) {
			err = l.queue()
		}
		if err != nil {
			a.finish(l.svc)
			return err
		}
		if !wanted {
			continue
		}
		select {
		case l.exchanges <- a:
		default:
			a.finish(l.svc)
			return tree.ErrBadInput.With("more than %d requests are unanswered", workWindow)
		}
	}
}

// handleHello records the worker of the stream. A worker of another pool takes no runs from this
// replica, so its slot is not counted.
func (l *slot) handleHello(hello *pb.Hello) {
	l.svc.registry.setWorker(l, hello)
	if hello.GetDraining() {
		l.svc.registry.setDraining(l)
	}
	if pool := hello.GetPool(); pool != "" && pool != l.svc.Pool {
		l.state.uncount()
	}
}

// submit hands a request to the store. A request that the worker sent before it knew that its
// attempt was over is not wanted, and gets no answer. An error ends the stream.
func (l *slot) submit(req *pb.WorkRequest) (a *exchange, wanted bool, err error) {
	lease := l.state.currentLease()
	a = &exchange{req: req, lease: lease}
	claim, reattach := req.GetClaim(), req.GetReattach()
	if (claim != nil || reattach != nil) && (lease != nil || l.onStandby.Load() != nil || l.claiming.Swap(true)) {
		return a, false, tree.ErrBadInput.With("the slot cannot claim while its stream has an attempt or may get one")
	}
	l.identifyWorker(req)
	a.worker = l.state.currentWorker()
	ctx := l.stream.Context()
	switch {
	case claim != nil && (claim.GetProtocol() > wire.Protocol || claim.GetProtocol() < wire.OldestProtocol):
		a.err = errUnsupportedProtocol
	case (claim != nil || reattach != nil) && l.svc.isSilent():
		a.err = tree.ErrUnavailable.With("replica %s cannot record that it is alive", l.svc.Replica)
	case claim != nil:
		session, cmd, err := wire.ClaimFrom(claim)
		l.submitAttempt(a, session, cmd, cmd.Task, cmd.Token.Epoch, err)
	case reattach != nil:
		session, cmd, err := wire.ReattachFrom(reattach)
		l.submitAttempt(a, session, cmd, cmd.Task, cmd.Token.Epoch, err)
	case lease == nil:
		return a, false, nil
	default:
		var cmd tree.Command
		if cmd, a.err = l.commandFrom(ctx, lease, req); a.err == nil {
			l.prepare(a, lease, cmd)
		}
	}
	return a, true, nil
}

// commandFrom translates a request of the attempt on the stream.
func (l *slot) commandFrom(ctx context.Context, lease *lease, req *pb.WorkRequest) (tree.Command, error) {
	from := tree.From{Task: lease.task, Token: lease.token, Attach: lease.attach, Seq: req.GetSeq()}
	if req.GetSeq() <= lease.storedSeq {
		again := tree.Repeat{
			From: from, Answered: req.GetAppend() != nil || req.GetEnd() != nil || req.GetStopHooks() != nil,
			Summed: req.GetCompact() != nil, Launched: wire.ShellBlocks(req.GetSpawn()),
		}
		if ask := req.GetAsk(); ask != nil {
			block := int(ask.GetBlock())
			again.Asked = &block
		}
		return again, nil
	}
	agents := func(*tree.Child) {}
	if req.GetSpawn() != nil {
		var err error
		if agents, err = l.svc.spawnableBy(ctx, lease); err != nil {
			return nil, err
		}
	}
	l.svc.setCost(wire.ModelAnswer(req))
	cmd, err := wire.CommandFrom(req, from, agents)
	return cmd, badRequest(err)
}

// badRequest marks an error of translation as the worker's fault.
func badRequest(err error) error {
	if err == nil {
		return nil
	}
	return tree.ErrBadInput.With("%v", err)
}

// sendAnswers waits for each request in turn and sends its outcome. It also tells the worker when
// its attempt is revoked. Once the stream is broken it sends nothing more: the worker learns over
// another stream what was stored.
func (l *slot) sendAnswers() {
	ctx := l.stream.Context()
	broken := false
	send := func(seq int64, responses ...*pb.WorkResponse) {
		for _, r := range responses {
			r.Seq = seq
		}
		if len(responses) > 1 { // the answer comes with a run, which is on the stream
			if held := l.state.currentLease(); held != nil && held.worker.Has(wire.FeatureJoined) {
				responses = wire.JoinResponses(responses)
			}
		}
		for _, r := range responses {
			broken = broken || l.send(r) != nil
		}
	}
	for {
		select {
		case a, more := <-l.exchanges:
			if !more {
				return
			}
			var responses []*pb.WorkResponse
			var err error
			if !broken && ctx.Err() == nil {
				responses, err = l.respond(ctx, a)
			}
			l.checkLateGrant(a)
			a.finish(l.svc)
			switch {
			case broken || ctx.Err() != nil:
				continue
			case tree.CodeOf(err) == tree.CodeUnavailable:
				broken = true // it is unknown whether the request was stored
				l.failed <- err
				continue
			case err != nil:
				responses = []*pb.WorkResponse{l.loseAttempt(ctx, err)}
			}
			send(a.req.GetSeq(), responses...)
		case down := <-l.standbyEnds:
			send(0, l.answerStandbyEnd(ctx, down)...)
		case <-l.drains:
			send(0, &pb.WorkResponse{Kind: &pb.WorkResponse_Drain{Drain: &pb.Drain{}}})
		case <-l.leaseChanged:
			lease := l.state.currentLease()
			switch {
			case lease == nil:
			case l.svc.leases.isRevoked(lease):
				if l.onStandby.Swap(nil) != nil {
					<-l.standbyEnds // the revoked run, which was held before the worker heard of it
				}
				l.dropAttempt()
				send(0, lostResponse("the run was ended from outside"))
			case lease.worker.Has(wire.FeatureCommands):
				if message := l.svc.leases.takeRelease(lease); message > 0 {
					send(0, backgroundCommands(message))
				}
			}
		}
	}
}
