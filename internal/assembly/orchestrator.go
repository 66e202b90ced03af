// Package assembly builds whole processes: an orchestrator, a worker, or both in one process. It
// connects the parts, and defines in which order they start and stop.
package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/api"
	"github.com/coppice-run/coppice/internal/auth"
	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/model/price"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tree"
)

// DefaultPool is the default pool of runs.
const DefaultPool = "default"

// Orchestrator configures an orchestrator process.
type Orchestrator struct {
	// Installation is part of all keys in Redis. A new database stores it permanently. Empty: a
	// new database gets a random one.
	Installation string
	Database     string // path of a SQLite file, or a postgres:// URL
	Redis        *redis.Client
	Pool         string
	Limits       tree.Limits
	Budget       tree.Budget // the maximum of a session
	// RunningOfTenant and RunningInAll cap how many runs of a tenant, and in all, may be with
	// workers at once; 0 is no cap.
	RunningOfTenant, RunningInAll int
	RetainSessions                time.Duration      // delete sessions after this time without activity; 0: never
	Grace                         time.Duration      // how long a worker whose stream broke may take to come back; 0: orchestrator.DefaultGrace
	Callbacks                     callback.Config    // which hosts may be called when runs end
	AgentsDirs                    []string           // directories of definitions; later ones take precedence
	PluginsDir                    string             // empty: none
	Prices                        string             // file of model prices; empty: built in
	Models                        string             // file of model names; empty: built in
	Secrets                       *redact.Redactor   // never stored or shown; nil: none are known
	OnOpen                        func(*store.Store) // called with the database before calls are served; may be nil
	Listeners                     []net.Listener
	InProcess                     *api.InProcess       // serves a worker in this process; nil: none
	Alone                         bool                 // nothing else needs this process: it may adapt its number of processors
	Health                        net.Listener         // answers health checks of anybody, without TLS; nil: none
	Security                      auth.Server          // who may call, and over which transport
	Telemetry                     *telemetry.Telemetry // nil: none
	Logger                        *slog.Logger
}

// Run serves until ctx ends. Then it accepts no new calls, tells streams to end, and waits for
// short calls. It calls ready when calls are served.
func (o Orchestrator) Run(ctx context.Context, ready func()) error {
	orchestratorBallast()
	if err := o.validate(ctx); err != nil {
		return err
	}
	db, svc, err := o.newService(ctx)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil //nolint:nilerr // it was stopped before it started
	case err != nil:
		return err
	}
	if o.OnOpen != nil {
		o.OnOpen(db)
	}
	return errors.Join(o.serve(ctx, db, svc, ready), db.Close())
}

// validate checks the configuration before anything is opened.
func (o Orchestrator) validate(ctx context.Context) error {
	for _, l := range o.Listeners {
		if err := o.Security.CheckListen(ctx, l.Addr(), o.Logger); err != nil {
			return err
		}
	}
	if err := cmp.Or(checkDirs("--agents-dir", o.AgentsDirs...), checkDirs("--plugins-dir", o.PluginsDir)); err != nil {
		return err
	}
	if err := dispatch.CheckInstallation(o.Installation); o.Installation != "" && err != nil {
		return err
	}
	return o.caps().Validate()
}

// caps returns the caps on runs that are with workers at once.
func (o Orchestrator) caps() store.Caps {
	return store.Caps{Tenant: o.RunningOfTenant, All: o.RunningInAll}
}

// newService opens the database and creates the service on it. If that fails, the database is
// closed again.
func (o Orchestrator) newService(ctx context.Context) (_ *store.Store, _ *orchestrator.Service, err error) {
	models, err := agentdef.LoadModels(o.Models)
	if err != nil {
		return nil, nil, err
	}
	prices := price.Standard()
	if o.Prices != "" {
		if prices, err = price.Load(o.Prices); err != nil {
			return nil, nil, err
		}
	}
	caller, err := callback.New(o.Callbacks)
	if err != nil {
		return nil, nil, err
	}
	replica := processName()
	var svc *orchestrator.Service
	db, err := o.open(ctx, store.Config{
		Database: o.Database, NewInstallation: o.Installation, Logger: o.Logger, Replica: replica, SkipMetrics: !o.Telemetry.Enabled(),
		Caps: o.caps(), EarlyRuns: o.InProcess != nil, OnCommit: func(c store.Commit) { svc.Committed(c) }, AnnounceOnCommit: true,
		Standby: func() store.Standby { return svc.Standby() },
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	bus, err := dispatch.New(dispatch.Config{Client: o.Redis, Installation: db.Installation(), Logger: o.Logger})
	if err != nil {
		return nil, nil, err
	}
	agents := agentdef.NewLibrary(o.AgentsDirs, o.PluginsDir)
	agents.Clean = o.Secrets.String
	svc, err = orchestrator.New(orchestrator.Config{
		Store: db, Bus: bus, Agents: agents, Models: models, Prices: prices, Callbacks: caller, Replica: replica, Pool: o.Pool,
		Limits: o.Limits, Budget: o.Budget, Secrets: o.Secrets, Logger: o.Logger, Retain: o.RetainSessions, Grace: o.Grace, Telemetry: o.Telemetry,
	})
	return db, svc, err
}

// checkDirs returns an error if a directory that a flag names does not exist. Empty names are
// ignored.
func checkDirs(flag string, names ...string) error {
	for _, name := range names {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		} else if !info.IsDir() {
			return fmt.Errorf("%s: %s is not a directory", flag, name)
		}
	}
	return nil
}

// openTimeout is how long a database server may take to become available.
const openTimeout = 30 * time.Second

// open opens the database. It retries while a database server is not available, but not if the
// server refuses, the URL is invalid, or the database belongs to another installation.
func (o Orchestrator) open(ctx context.Context, c store.Config) (*store.Store, error) {
	if !store.Shared(c.Database) {
		return store.Open(ctx, c)
	}
	open := func() (*store.Store, error) {
		db, err := store.Open(ctx, c)
		if errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrNoDatabase) || errors.Is(err, store.ErrOtherInstallation) {
			err = backoff.Permanent(err)
		}
		return db, err
	}
	return backoff.Retry(ctx, open,
		backoff.WithBackOff(backoff.NewExponentialBackOff()), backoff.WithMaxElapsedTime(openTimeout),
		backoff.WithNotify(func(err error, wait time.Duration) {
			o.Logger.WarnContext(ctx, "opening the database failed", "error", err, "retry_in", wait)
		}))
}

// stopTimeout is how long an orchestrator that is told to stop begins transactions. It needs so long
// only if the database can't be reached; then each takes seconds to fail.
const stopTimeout = 4 * time.Second

// serve runs the parts. The server stops before the service, and the service before the store,
// because each still records something while it stops.
func (o Orchestrator) serve(ctx context.Context, db *store.Store, svc *orchestrator.Service, ready func()) error {
	storing, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStore()
	ctx, end := context.WithCancel(ctx)
	defer end()
	var below errgroup.Group
	below.Go(func() error {
		defer end() // without a database that it can write, the process ends
		return db.Run(storing)
	})
	if err := svc.Prepare(ctx); err != nil {
		if ctx.Err() != nil {
			err = nil // it was stopped before it started
		}
		stopStore()
		return errors.Join(err, below.Wait())
	}

	server := api.New(svc, o.Secrets, o.Security, o.Logger)
	defer serveHealth(ctx, o.Health, server.Health, o.Logger)()
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { return svc.Run(running) })
	if o.Alone && !db.Exclusive() {
		defer startAdapting(running)()
	}
	for _, l := range o.Listeners {
		g.Go(func() error { return server.Serve(l) })
	}
	if o.InProcess != nil {
		server.ServeInProcess(o.InProcess)
	}
	g.Go(func() error {
		<-running.Done()
		time.AfterFunc(stopTimeout, stopStore)
		svc.Stop()
		server.Shutdown()
		svc.Wait()
		return nil
	})
	if ready != nil {
		ready()
	}
	err := g.Wait()
	stopStore()
	return errors.Join(err, below.Wait())
}

// processName returns a name that is unique to this process.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}
