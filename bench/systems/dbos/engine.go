package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/bench/system"
)

const shutdownPatience = 5 * time.Second

// engine is DBOS in this process, PostgreSQL beside it.
type engine struct{ dbos dbos.DBOSContext }

// Start implements system.System.
func (e *engine) Start(ctx context.Context, at system.Setup) error {
	made, err := dbos.NewDBOSContext(ctx, dbos.Config{AppName: "bench", DatabaseURL: at.Postgres, Logger: slog.Default()})
	if err != nil {
		return fmt.Errorf("making a context: %w", err)
	}
	e.dbos = made
	dbos.RegisterWorkflow(made, child)
	dbos.RegisterWorkflow(made, fanOut)
	dbos.RegisterWorkflow(made, oneByOne)
	return dbos.Launch(made)
}

// child does nothing.
func child(dbos.DBOSContext, string) (string, error) { return "done", nil }

// maxChildren of one parent: past it, parents have parents.
const maxChildren = 1000

// fanOut starts n children and waits for all. It starts them one after another, as the
// steps of a workflow have to have an order.
func fanOut(ctx dbos.DBOSContext, n int) (int, error) {
	if n > maxChildren {
		return spread(ctx, n)
	}
	running := make([]dbos.WorkflowHandle[string], n)
	for i := range running {
		var err error
		if running[i], err = dbos.RunWorkflow(ctx, child, ""); err != nil {
			return 0, err
		}
	}
	for _, r := range running {
		if _, err := r.GetResult(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// spread starts parents that share n children, and waits for all.
func spread(ctx dbos.DBOSContext, n int) (int, error) {
	var running []dbos.WorkflowHandle[int]
	for left := n; left > 0; left -= maxChildren {
		parent, err := dbos.RunWorkflow(ctx, fanOut, min(left, maxChildren))
		if err != nil {
			return 0, err
		}
		running = append(running, parent)
	}
	joined := 0
	for _, r := range running {
		children, err := r.GetResult()
		if err != nil {
			return 0, err
		}
		joined += children
	}
	return joined, nil
}

// oneByOne runs n children one after another.
func oneByOne(ctx dbos.DBOSContext, n int) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		running, err := dbos.RunWorkflow(ctx, child, "")
		if err != nil {
			return nil, err
		}
		if _, err := running.GetResult(); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}

// Spawn implements system.System.
func (e *engine) Spawn(_ context.Context, n int) ([]time.Duration, error) {
	return result(e.dbos, oneByOne, n)
}

// FanOut implements system.System.
func (e *engine) FanOut(_ context.Context, n int) error {
	_, err := result(e.dbos, fanOut, n)
	return err
}

// result runs a workflow and waits for its result.
func result[P, R any](ctx dbos.DBOSContext, workflow dbos.Workflow[P, R], input P) (R, error) {
	running, err := dbos.RunWorkflow(ctx, workflow, input)
	if err != nil {
		var none R
		return none, fmt.Errorf("starting a workflow: %w", err)
	}
	return running.GetResult()
}

// Independent implements system.System.
func (e *engine) Independent(_ context.Context, n int) error {
	var all errgroup.Group
	all.SetLimit(system.Slots)
	for range n {
		all.Go(func() error {
			_, err := result(e.dbos, child, "")
			return err
		})
	}
	return all.Wait()
}

// Stop implements system.System.
func (e *engine) Stop(context.Context) error {
	dbos.Shutdown(e.dbos, shutdownPatience)
	return nil
}
