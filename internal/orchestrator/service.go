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

// DefaultAgent is the root of a session that names no other.
const DefaultAgent = "general-purpose"

// Config says what a replica works with.
type Config struct {
	Store     *store.Store
	Bus       *dispatch.Bus
	Agents    *agentdef.Library // nil: only those that are built in
	Models    *agentdef.Models  // nil: those that are built in
	Prices    *price.Table      // nil: those that are built in
	Replica   string
	Pool      string
	Limits    tree.Limits
	Budget    tree.Budget      // of a session, at most
	Callbacks *callback.Caller // nil: nobody may be called
	Secrets   *redact.Redactor // that must not be stored; requests are without them already; nil: none are known
	Logger    *slog.Logger
	Now       func() time.Time
	Telemetry *telemetry.Telemetry // nil: nobody measures
	Retain    time.Duration        // how long sessions are kept in which nothing happens; 0: for ever
	Grace     time.Duration        // how long a run waits for a worker whose stream broke; 0: DefaultGrace
}

// Service is one replica.
type Service struct {
	Config
	hub        *hub
	tails      tails
	outbox     *outbox
	wishes     *wishes
	relay      *relay
	census     census
	leases     *leases
	roster     *roster
	stock      *stock
	standby    *standby
	kick       chan struct{} // something may be ready to announce
	later      chan struct{} // something may be, though nothing is known to wait
	stopping   chan struct{} // closed by Stop
	stop       sync.Once
	serving    sync.WaitGroup // of streams
	slotsOfAll atomic.Int64   // of all workers, as of the last sweep
	others     atomic.Bool    // replicas that are alive, as of the last sweep
	claims     pace
	sweeper    sweeper
	agents     *agents
	workers    *alive.Prober
	dead       chan string        // workers of which that is known, until something is done about it
	measures   *telemetry.Replica // nil: nobody measures
}

// New checks the configuration. Call Committed after each commit of the store.
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
		return nil, fmt.Errorf("orchestrator: sessions are to be kept for %s, must not be negative: 0 keeps them", c.Retain)
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
		Config: c, agents: newAgents(c), hub: newHub(), outbox: newOutbox(), leases: newLeases(), roster: newRoster(), stock: newStock(),
		wishes: newWishes(), relay: newRelay(c.Now),
		kick: make(chan struct{}, 1), later: make(chan struct{}, 1), stopping: make(chan struct{}), dead: make(chan string, deadAtOnce),
	}
	s.standby = newStandby(&s.census)
	s.others.Store(!c.Store.Exclusive())
	s.standby.open(c.Store.Exclusive())
	s.workers = alive.NewProber(alive.Config{Died: s.workerDied, Logger: c.Logger})
	if c.Telemetry != nil {
		var err error
		if s.measures, err = c.Telemetry.Replica(c.Pool, s.state); err != nil {
			return nil, fmt.Errorf("orchestrator: %w", err)
		}
	}
	return s, nil
}

// Stop makes watches, waits and workers' streams end, so that their clients go
// to another replica.
func (s *Service) Stop() { s.stop.Do(func() { close(s.stopping) }) }

// Stopping is closed by Stop.
func (s *Service) Stopping() <-chan struct{} { return s.stopping }

// Wait waits until nothing of any stream is left, once all streams have ended.
func (s *Service) Wait() {
	s.serving.Wait()
	s.workers.Close()
}

// Standby has the slots that wait for runs here.
func (s *Service) Standby() store.Standby { return s.standby }

// Prepare reads the definitions of agents and stores them. It has to be done before
// calls are served.
func (s *Service) Prepare(ctx context.Context) error { return s.agents.read(ctx) }

// Run announces, sweeps, and keeps in touch with other replicas until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.announce(ctx) })
	g.Go(func() error { return s.sendDue(ctx) })
	g.Go(func() error { return s.countHints(ctx) })
	g.Go(func() error { return s.stayAlive(ctx) })
	g.Go(func() error { return s.sweep(ctx) })
	g.Go(func() error { return s.inherit(ctx) })
	g.Go(func() error { return s.agents.follow(ctx) })
	g.Go(func() error { return s.callBack(ctx) })
	if !s.Store.Exclusive() {
		g.Go(func() error { return s.nudge(ctx) })
		g.Go(func() error { return s.listen(ctx) })
		g.Go(func() error { return s.hear(ctx) })
		g.Go(func() error { return s.relayText(ctx) })
	}
	return g.Wait()
}

// Committed tells the replica what a commit has changed, and through it the other
// replicas. It never waits, and may be called several times at once.
func (s *Service) Committed(c store.Commit) {
	if s.others.Load() {
		s.outbox.put(c)
		s.relay.hurry()
	}
	for _, touched := range c.Sessions {
		s.hub.committed(touched)
	}
	for _, r := range c.Revoked {
		s.leases.revoke(r.Session, r.Task, r.Epoch)
	}
	for _, r := range c.Released {
		s.leases.release(r.Task, r.Epoch, r.Message)
	}
	switch waiting := s.stock.committed(time.Now(), c.Ready); {
	case waiting:
		s.lookForReady()
	case c.Room:
		s.lookForMore()
	}
	s.measure(c)
}

// lookForReady makes the announcer look soon.
func (s *Service) lookForReady() { poke(s.kick) }

// poke leaves word in a channel that holds one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
