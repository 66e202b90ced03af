// Package orchestrator is the service over store and dispatch: what clients ask
// for, what workers report, and the three loops that keep a replica honest
// (announcing what is ready, sweeping what was left, serving who watches).
//
// A replica holds nothing that another could not take over. What it keeps in
// memory is who is connected to it right now: watchers and the streams of
// attempts. Everything else is read from the store when it is needed.
package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// DefaultAgent is the root of a session that names no other.
const DefaultAgent = "general-purpose"

// Config says what a replica works with.
type Config struct {
	Store   *store.Store
	Bus     *dispatch.Bus
	Agents  *agentdef.Registry
	Replica string
	Pool    string
	Limits  tree.Limits
	Logger  *slog.Logger
	Now     func() time.Time
}

// Service is one replica.
type Service struct {
	Config
	hub      *hub
	outbox   *outbox
	leases   *leases
	kick     chan struct{} // something may be ready to announce
	stopping chan struct{} // closed by Stop
	stop     sync.Once
	serving  sync.WaitGroup       // of streams
	ended    map[heldAttempt]bool // seen by the last sweep to be ended; only the sweep looks at it
}

// New checks the configuration. Call Committed after each commit of the store.
func New(c Config) (*Service, error) {
	if c.Store == nil || c.Bus == nil || c.Agents == nil || c.Replica == "" || c.Pool == "" {
		return nil, errors.New("orchestrator: a store, a bus, agents, a replica name and a pool are required")
	}
	if err := c.Limits.Validate(); err != nil {
		return nil, fmt.Errorf("orchestrator: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{
		Config: c, hub: newHub(), outbox: newOutbox(), leases: newLeases(),
		kick: make(chan struct{}, 1), stopping: make(chan struct{}),
	}, nil
}

// Stop makes watches, waits and workers' streams end, so that their clients go
// to another replica.
func (s *Service) Stop() { s.stop.Do(func() { close(s.stopping) }) }

// Wait waits until nothing of any stream is left, once all streams have ended.
func (s *Service) Wait() { s.serving.Wait() }

// Prepare makes sure that the definitions which may be handed out are stored.
// It has to be done before calls are served.
func (s *Service) Prepare(ctx context.Context) error {
	for _, def := range s.Agents.List() {
		if err := s.Store.PutAgentVersion(ctx, def.Name, def.Version, def.Marshal()); err != nil {
			return fmt.Errorf("storing the definition of %s: %w", def.Name, err)
		}
	}
	return nil
}

// Run announces, sweeps, and keeps in touch with other replicas until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.announce(ctx) })
	g.Go(func() error { return s.sweep(ctx) })
	if !s.Store.Alone() {
		g.Go(func() error { return s.nudge(ctx) })
		g.Go(func() error { return s.listen(ctx) })
	}
	return g.Wait()
}

// Committed tells the replica what a commit has changed, and through it the other
// replicas. It never waits, and may be called several times at once.
func (s *Service) Committed(c store.Commit) {
	if !s.Store.Alone() {
		s.outbox.put(c)
	}
	for _, touched := range c.Sessions {
		s.hub.poke(touched.Session)
	}
	for _, r := range c.Revoked {
		s.leases.revoke(r.Task, r.Epoch)
	}
	if len(c.Ready) > 0 || c.Room {
		s.lookForReady()
	}
}

// lookForReady makes the announcer look soon.
func (s *Service) lookForReady() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// spawnableBy gives a look-up of the agents that an agent may spawn.
func (s *Service) spawnableBy(spawner string) wire.AgentLookup {
	return func(name string) *tree.Agent {
		by, known := s.Agents.Get(spawner)
		def, ok := s.Agents.Get(name)
		if !known || !ok || !slices.Contains(s.Agents.Spawnable(by), def) {
			return nil
		}
		return s.agent(name)
	}
}

// agent gives what the core needs to know of a definition; nil if there is none.
func (s *Service) agent(name string) *tree.Agent {
	def, ok := s.Agents.Get(name)
	if !ok {
		return nil
	}
	return &tree.Agent{
		Name: def.Name, Version: def.Version, Mode: tree.Mode(def.Mode),
		Model: def.Model, MaxIterations: def.MaxIterations,
		Timeout: def.Timeout, FailOnInterrupt: def.FailOnInterrupt,
	}
}
