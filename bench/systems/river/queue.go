package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/coppice-run/coppice/bench/system"
)

const (
	// insertions is how many jobs one statement inserts.
	insertions = 2000
	// events is the length of the queue of completions, which drops what it can't hold.
	events = 100_000
	// pollInterval is that of River's own benchmark.
	pollInterval = 20 * time.Millisecond
	// connections of the pool: the server's default limit is 100.
	connections = 50
)

// queue is River's client in this process, PostgreSQL beside it.
type queue struct {
	eager    bool
	defaults bool // River's intervals instead of faster ones
	workers  int  // jobs that run at once
	pool     *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	joins    joins
	groups   atomic.Int64
	ended    chan []time.Duration
	quit     func() // ends the subscription
}

// Start implements system.System.
func (q *queue) Start(ctx context.Context, at system.Setup) error {
	config, err := pgxpool.ParseConfig(at.Postgres)
	if err != nil {
		return err
	}
	config.MaxConns = connections
	if q.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	driver := riverpgxv5.New(q.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &childWorker{queue: q})
	river.AddWorker(workers, &parentWorker{queue: q})
	q.ended = make(chan []time.Duration, 1)
	settings := &river.Config{
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: q.workers}},
		Workers:    workers,
		JobTimeout: -1,
	}
	if !q.defaults {
		settings.FetchCooldown = river.FetchCooldownMin // the default, 100 ms, would be all that one sees of it
		// A notification less than the cooldown after another is not sent: who waits for it
		// waits for the next poll, by default for a second.
		settings.FetchPollInterval = pollInterval
	}
	if q.client, err = river.NewClient(driver, settings); err != nil {
		return err
	}
	completed, quit := q.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: events, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	q.quit = quit
	go q.follow(completed)
	return q.client.Start(ctx)
}

// follow tells joins what River has recorded, until the subscription ends.
func (q *queue) follow(completed <-chan *river.Event) {
	for e := range completed {
		if group, ok := groupOf(e.Job.EncodedArgs); ok {
			q.joins.done(group)
		}
	}
}

// Spawn implements system.System.
func (q *queue) Spawn(ctx context.Context, n int) ([]time.Duration, error) {
	return q.run(ctx, parentArgs{Children: n, Sequential: true})
}

// FanOut implements system.System.
func (q *queue) FanOut(ctx context.Context, n int) error {
	_, err := q.run(ctx, parentArgs{Children: n})
	return err
}

// run has a parent do something and waits until it has.
func (q *queue) run(ctx context.Context, args parentArgs) ([]time.Duration, error) {
	if _, err := q.client.Insert(ctx, args, nil); err != nil {
		return nil, fmt.Errorf("inserting a parent: %w", err)
	}
	select {
	case latencies := <-q.ended:
		return latencies, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Independent implements system.System.
func (q *queue) Independent(ctx context.Context, n int) error { return q.all(ctx, n) }

// Stop implements system.System.
func (q *queue) Stop(ctx context.Context) error {
	err := q.client.StopAndCancel(ctx)
	q.quit()
	q.pool.Close()
	return err
}

// all inserts n children and waits for all of them.
func (q *queue) all(ctx context.Context, n int) error {
	group := q.groups.Add(1)
	results := q.joins.begin(group, n)
	defer q.joins.end(group)
	for left := n; left > 0; left -= insertions {
		batch := make([]river.InsertManyParams, min(left, insertions))
		for i := range batch {
			batch[i].Args = childArgs{Group: group, Join: q.join()}
		}
		if _, err := q.client.InsertManyFast(ctx, batch); err != nil {
			return fmt.Errorf("inserting children: %w", err)
		}
	}
	return take(ctx, results, n)
}

func (q *queue) join() join {
	if q.eager {
		return joinEager
	}
	return joinRecorded
}

// oneByOne spawns n children, each after the result of the one before.
func (q *queue) oneByOne(ctx context.Context, n int) ([]time.Duration, error) {
	group := q.groups.Add(1)
	results := q.joins.begin(group, n)
	defer q.joins.end(group)
	how := joinCommitted
	if q.eager {
		how = joinEager
	}
	latencies := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if _, err := q.client.Insert(ctx, childArgs{Group: group, Join: how}, nil); err != nil {
			return nil, fmt.Errorf("inserting a child: %w", err)
		}
		if err := take(ctx, results, 1); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}
