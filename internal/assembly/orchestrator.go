// Package assembly puts whole processes together: an orchestrator, a worker, or
// both in one process. It is wiring: what is connected to what, in which order
// it starts, and in which order it stops.
package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
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

// DefaultPool is the pool of runs that ask for no other.
const DefaultPool = "default"

// Orchestrator is an orchestrator process.
type Orchestrator struct {
	// Installation is part of all keys in Redis. A new database gets it, and keeps it;
	// empty: one of its own.
	Installation string
	Database     string // path of a SQLite file, or a postgres:// URL
	Redis        *redis.Client
	Pool         string
	Limits       tree.Limits
	Budget       tree.Budget // of a session, at most
	// How many runs of a tenant, and in all, may be with workers at once; 0 is no cap.
	RunningOfTenant, RunningInAll int
	RetainSessions                time.Duration      // in which nothing happens; 0: for ever
	Grace                         time.Duration      // in which a worker whose stream broke may come back; 0: orchestrator.DefaultGrace
	Callbacks                     callback.Config    // who may be called when runs end
	AgentsDirs                    []string           // directories of definitions; the later goes before the earlier
	PluginsDir                    string             // empty: no plugins
	Prices                        string             // file of what models cost; empty: what is built in
	Models                        string             // file of the names of models; empty: the one that is built in
	Secrets                       *redact.Redactor   // that are not stored, and told to nobody; nil: none are known
	Opened                        func(*store.Store) // is given the database before calls are served; may be nil
	Listeners                     []net.Listener
	Health                        net.Listener         // answers questions about health to anybody, without TLS; nil: none
	Security                      auth.Server          // who may call, and over what
	Telemetry                     *telemetry.Telemetry // nil: nobody measures
	Logger                        *slog.Logger
}

// Run serves until ctx ends, then stops: no new calls, streams are told to end,
// short calls end by themselves. ready is called once calls are served.
func (o Orchestrator) Run(ctx context.Context, ready func()) error {
	slack()
	replica := processName()
	for _, l := range o.Listeners {
		if err := o.Security.Admit(ctx, l.Addr(), o.Logger); err != nil {
			return err
		}
	}
	if err := cmp.Or(directories("--agents-dir", o.AgentsDirs...), directories("--plugins-dir", o.PluginsDir)); err != nil {
		return err
	}
	if err := dispatch.CheckInstallation(o.Installation); o.Installation != "" && err != nil {
		return err
	}
	caps := store.Caps{Tenant: o.RunningOfTenant, All: o.RunningInAll}
	if err := caps.Validate(); err != nil {
		return err
	}
	models, err := agentdef.LoadModels(o.Models)
	if err != nil {
		return err
	}
	prices := price.Standard()
	if o.Prices != "" {
		if prices, err = price.Load(o.Prices); err != nil {
			return err
		}
	}
	var svc *orchestrator.Service
	db, err := o.open(ctx, store.Config{
		Database: o.Database, NewInstallation: o.Installation, Logger: o.Logger, Replica: replica, SkipMetrics: !o.Telemetry.Measures(),
		Caps: caps, OnCommit: func(c store.Commit) { svc.Committed(c) }, AnnounceOnCommit: true,
		Standby: func() store.Standby { return svc.Standby() },
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return nil //nolint:nilerr // it was stopped before it had begun
	case err != nil:
		return err
	}
	bus, err := dispatch.New(dispatch.Config{Client: o.Redis, Installation: db.Installation(), Logger: o.Logger})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	caller, err := callback.New(o.Callbacks)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	agents := agentdef.NewLibrary(o.AgentsDirs, o.PluginsDir)
	agents.Clean = o.Secrets.String
	svc, err = orchestrator.New(orchestrator.Config{
		Store: db, Bus: bus, Agents: agents, Models: models, Prices: prices, Callbacks: caller, Replica: replica, Pool: o.Pool,
		Limits: o.Limits, Budget: o.Budget, Secrets: o.Secrets, Logger: o.Logger, Retain: o.RetainSessions, Grace: o.Grace, Telemetry: o.Telemetry,
	})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	if o.Opened != nil {
		o.Opened(db)
	}
	return errors.Join(o.serve(ctx, db, svc, ready), db.Close())
}

// directories reports one that a flag names and that is not there; an empty name is none.
func directories(flag string, names ...string) error {
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

// openPatience is how long a database server may take until it can be opened.
const openPatience = 30 * time.Second

// open opens the database. A server that is not up yet is waited for; one that refuses, or
// whose name can't be read, is not.
func (o Orchestrator) open(ctx context.Context, c store.Config) (*store.Store, error) {
	if !store.Shared(c.Database) {
		return store.Open(ctx, c)
	}
	open := func() (*store.Store, error) {
		db, err := store.Open(ctx, c)
		if errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrNoDatabase) {
			err = backoff.Permanent(err)
		}
		return db, err
	}
	return backoff.Retry(ctx, open,
		backoff.WithBackOff(backoff.NewExponentialBackOff()), backoff.WithMaxElapsedTime(openPatience),
		backoff.WithNotify(func(err error, wait time.Duration) {
			o.Logger.WarnContext(ctx, "opening the database failed", "error", err, "retry_in", wait)
		}))
}

// serve runs the parts. The store outlives the service, and the service the
// server, since each stop still has something to record.
func (o Orchestrator) serve(ctx context.Context, db *store.Store, svc *orchestrator.Service, ready func()) error {
	storing, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStore()
	var below errgroup.Group
	below.Go(func() error { return db.Run(storing) })
	if err := svc.Prepare(storing); err != nil {
		stopStore()
		return errors.Join(err, below.Wait())
	}

	server := api.New(svc, o.Secrets, o.Security, o.Logger)
	defer serveHealth(ctx, o.Health, server.Health, o.Logger)()
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { return svc.Run(running) })
	g.Go(func() error {
		meetRedis(running, o.Redis, o.Logger)
		return nil
	})
	for _, l := range o.Listeners {
		g.Go(func() error { return server.Serve(l) })
	}
	g.Go(func() error {
		<-running.Done()
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

// processName is unique to this process: where it runs and when it started.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}

// redisTimeouts keep a dead Redis from holding anything up for long.
const (
	redisDial  = 2 * time.Second
	redisWrite = 2 * time.Second
)

// errRedisURL holds nothing of the URL, nor of what was said about it: any piece may be one of a
// password that is written wrongly.
var errRedisURL = errors.New("the Redis URL can't be read: it is to be like redis://user:password@host:6379/0, or rediss://, or unix://user:password@/path; in a user or a password / is written as %2F, # as %23, ? as %3F, @ as %40, : as %3A, % as %25")

// OpenRedis connects to a Redis by URL. Nothing is sent yet.
func OpenRedis(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil || strings.Contains(url, "#") {
		return nil, errRedisURL
	}
	options.DialTimeout, options.WriteTimeout = redisDial, redisWrite
	options.ContextTimeoutEnabled = true
	// What a client says about itself when it connects takes rights that workers have
	// no use for.
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}
