package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/bench/system"
)

const (
	queue = "bench"
	// maxChildren of one workflow: past a limit of the server, 2,000 at once by
	// default, parents have parents.
	maxChildren = 1000
	// starters is how many independent workflows are started and awaited at once.
	starters = 200
	// pollers of a tuned worker; the default is 2.
	pollers = 16
	// cached is how many workflows a tuned worker keeps in memory.
	cached = 50_000
)

// engine is server, worker and client.
type engine struct {
	tuned  bool
	file   bool
	server temporal.Server
	client client.Client
	worker worker.Worker
}

// Start implements system.System.
func (e *engine) Start(ctx context.Context, at system.Setup) error {
	server, address, err := newServer(e.store(at.Dir), e.tuned)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	e.server = server
	logger := sdklog.NewStructuredLogger(slog.Default())
	if e.client, err = client.DialContext(ctx, client.Options{HostPort: address, Namespace: namespace, Logger: logger}); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	var options worker.Options
	if e.tuned {
		worker.SetStickyWorkflowCacheSize(cached)
		options.MaxConcurrentWorkflowTaskPollers = pollers
	}
	e.worker = worker.New(e.client, queue, options)
	e.worker.RegisterWorkflow(child)
	e.worker.RegisterWorkflow(fanOut)
	e.worker.RegisterWorkflow(oneByOne)
	return e.worker.Start()
}

// store says where the server keeps its data.
func (e *engine) store(dir string) *config.SQL {
	if e.file {
		return &config.SQL{
			PluginName: sqlite.PluginName, DatabaseName: filepath.Join(dir, "temporal.db"),
			ConnectAttributes: map[string]string{"mode": "rwc", "setup": "true", "journal_mode": "wal", "synchronous": "full"},
		}
	}
	return &config.SQL{
		PluginName: sqlite.PluginName, DatabaseName: "bench",
		ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
	}
}

// Spawn implements system.System.
func (e *engine) Spawn(ctx context.Context, n int) ([]time.Duration, error) {
	var latencies []time.Duration
	run, err := e.client.ExecuteWorkflow(ctx, options(), oneByOne, n)
	if err != nil {
		return nil, fmt.Errorf("starting a parent: %w", err)
	}
	return latencies, run.Get(ctx, &latencies)
}

// FanOut implements system.System.
func (e *engine) FanOut(ctx context.Context, n int) error {
	return e.one(ctx, fanOut, n)
}

// Independent implements system.System.
func (e *engine) Independent(ctx context.Context, n int) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(starters)
	for range n {
		all.Go(func() error { return e.one(ctx, child) })
	}
	return all.Wait()
}

// one runs a workflow and waits for its result.
func (e *engine) one(ctx context.Context, workflow any, args ...any) error {
	run, err := e.client.ExecuteWorkflow(ctx, options(), workflow, args...)
	if err != nil {
		return fmt.Errorf("starting a workflow: %w", err)
	}
	return run.Get(ctx, nil)
}

func options() client.StartWorkflowOptions { return client.StartWorkflowOptions{TaskQueue: queue} }

// Stop implements system.System.
func (e *engine) Stop(context.Context) error {
	e.worker.Stop()
	e.client.Close()
	return e.server.Stop()
}
