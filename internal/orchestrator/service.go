package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/alive"
	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/model/price"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tree"
)

// DefaultAgent is the root agent of a session that names no other.
const DefaultAgent = "general-purpose"

// Config configures a replica. Store, Bus, Pool, Replica and Limits are required.
type Config struct {
	Store     *store.Store
	Bus       *dispatch.Bus
	Agents    *agentdef.Library // nil: the built-in agents
	Models    *agentdef.Models  // nil: the built-in models
	Prices    *price.Table      // nil: the built-in prices
	Replica   string
	Pool      string
	Limits    tree.Limits
	Budget    tree.Budget      // upper bound for each session
	Callbacks *callback.Caller // nil: calls no URL
	Secrets   *redact.Redactor // secrets that must not be stored; requests are already clean of them; nil: none
	Logger    *slog.Logger
	Now       func() time.Time
	Telemetry *telemetry.Telemetry // nil: no metrics
	Retain    time.Duration        // how long a session without activity is kept; 0: for ever
	Grace     time.Duration        // how long a run waits for a worker whose stream broke; 0: DefaultGrace
}

// Service is one replica.
type Service struct {
	Config
	hub          *hub
	tails        tails
	outbox       *outbox
	interests    *textInterests
	relay        *relay
	slots        slotCounter
	leases       *leases
	registry     *workerRegistry
	backlog      *backlog
	standby      *standby
	announceNow  chan struct{} // holds one: a run may be ready to be announced
	announceSoon chan struct{} // holds one: a run may be ready, but none is known to wait
	stopping     chan struct{} // closed by Stop
	stopOnce     sync.Once
	serving      sync.WaitGroup // the goroutines of streams
	totalSlots   atomic.Int64   // of all workers, as of the last heartbeat
	hasOthers    atomic.Bool    // other replicas are alive, as of the last heartbeat
	redisAway    atomic.Bool    // the dispatch stream can't be used, as of the last check
	contact      contact        // with the database
	claimRate    rateCounter
	sweepState   sweepState
	agents       *agentCache
	prober       *alive.Prober
	deadWorkers  chan string        // dead workers whose hints are still to be recovered
	metrics      *telemetry.Replica // nil: no metrics
}

// New checks the configuration. The caller calls Committed after each commit of the store.
func New(c Config) (*Service, error) {
	if c.Store == nil || c.Bus == nil || c.Replica == "" {
		return nil, errors.New("orchestrator: a store, a bus and a replica name are required")
	}
	if err := dispatch.CheckPool(c.Pool); err != nil {
		return nil, fmt.Errorf("orchestrator: %w", err)
	}
	if err := c.Limits.Validate(); err != nil {
		return nil, fmt.Errorf("orchestrator: %w", err)
	}
	if err := c.Budget.Check(); err != nil {
		return nil, fmt.Errorf("orchestrator: %w", err)
	}
	if c.Retain < 0 {
		return nil, fmt.Errorf("orchestrator: the retention time of sessions is %s, must not be negative: 0 keeps them", c.Retain)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Agents == nil {
		c.Agents = agentdef.NewLibrary(nil, "")
	}
	if c.Models == nil {
		c.Models = agentdef.StandardModels()
	}
	if c.Prices == nil {
		c.Prices = price.Standard()
	}
	if c.Callbacks == nil {
		var err error
		if c.Callbacks, err = callback.New(callback.Config{}); err != nil {
			return nil, fmt.Errorf("orchestrator: %w", err)
		}
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	s := &Service{
		Config: c, agents: newAgentCache(c), hub: newHub(), outbox: newOutbox(), leases: newLeases(), registry: newWorkerRegistry(), backlog: newBacklog(),
		interests: newTextInterests(), relay: newRelay(c.Now),
		announceNow: make(chan struct{}, 1), announceSoon: make(chan struct{}, 1), stopping: make(chan struct{}), deadWorkers: make(chan string, maxDeadQueued),
	}
	s.contact.maxGap = max(s.replicaTimeout()/2, minContactGap)
	s.standby = newStandby(&s.slots)
	s.hasOthers.Store(!c.Store.Exclusive())
	s.standby.setOpen(c.Store.Exclusive())
	s.prober = alive.NewProber(alive.Config{OnDeath: s.workerDied, Logger: c.Logger})
	if c.Telemetry != nil {
		var err error
		if s.metrics, err = c.Telemetry.Replica(c.Pool, s.metricsState); err != nil {
			return nil, fmt.Errorf("orchestrator: %w", err)
		}
	}
	return s, nil
}

// Stop ends watches, waits and workers' streams, so that their clients go to another replica.
func (s *Service) Stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// Stopping returns a channel that Stop closes.
func (s *Service) Stopping() <-chan struct{} { return s.stopping }

// Wait waits for the goroutines of all streams. Call it after the streams have ended.
func (s *Service) Wait() {
	s.serving.Wait()
	s.prober.Close()
}

// Standby returns the slots that stand by with this replica.
func (s *Service) Standby() store.Standby { return s.standby }

// Prepare reads the definitions of agents and stores them, and records that this replica is alive,
// so that no other takes its first runs. Call it before calls are served.
func (s *Service) Prepare(ctx context.Context) error {
	if err := s.agents.readFiles(ctx); err != nil {
		return err
	}
	return s.heartbeat(ctx)
}

// Run runs the loops of the replica until ctx ends: it announces runs, sweeps, makes callbacks and
// keeps in touch with other replicas.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.announce(ctx) })
	g.Go(func() error { return s.sendDue(ctx) })
	g.Go(func() error { return s.superviseStream(ctx) })
	g.Go(func() error { return s.runHeartbeat(ctx) })
	g.Go(func() error { return s.sweep(ctx) })
	g.Go(func() error { return s.recoverHints(ctx) })
	g.Go(func() error { return s.agents.pollFiles(ctx) })
	g.Go(func() error { return s.runCallbacks(ctx) })
	if !s.Store.Exclusive() {
		g.Go(func() error { return s.sendNudges(ctx) })
		g.Go(func() error { return s.receiveNudges(ctx) })
		g.Go(func() error { return s.receiveText(ctx) })
		g.Go(func() error { return s.relayText(ctx) })
	}
	return g.Wait()
}

// Committed tells this replica, and through it the other replicas, what a commit changed. It never
// blocks, and is safe for concurrent use.
func (s *Service) Committed(c store.Commit) {
	if s.hasOthers.Load() {
		s.outbox.put(c)
		s.relay.flush()
	}
	for _, touched := range c.Sessions {
		s.hub.notifyCommit(touched)
	}
	for _, r := range c.Revoked {
		s.leases.revoke(r.Session, r.Task, r.Epoch)
	}
	for _, r := range c.Released {
		s.leases.release(r.Task, r.Epoch, r.Message)
	}
	switch waiting := s.backlog.addReady(time.Now(), c.Ready); {
	case waiting:
		s.wakeAnnouncer()
	case c.Room:
		s.announceMore()
	}
	s.recordCommit(c)
}

// wakeAnnouncer makes the announcer look for ready runs now.
func (s *Service) wakeAnnouncer() { signal(s.announceNow) }

// signal sends to a channel that holds one value, and does nothing if it is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
