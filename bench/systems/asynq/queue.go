package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/bench/system"
)

const (
	kindChild  = "child"
	kindParent = "parent"

	// enqueuers is how many enqueue at once: there is no call for many.
	enqueuers = 32
	// idle is how long the server sleeps when it finds nothing to do, give or take a half.
	// Its default, a second, would be all that one sees of it, and a millisecond still two
	// thirds of it.
	idle = 100 * time.Microsecond
	// batch is how many results are taken from a list at once.
	batch = 1000
)

// queue is asynq's client and server in this process, Redis beside it.
type queue struct {
	redis  *redis.Client
	client *asynq.Client
	server *asynq.Server
	last   int // list of results, counted
	ended  chan []time.Duration
}

// order is the payload of tasks.
type order struct {
	Results    string `json:"results"`              // the list that a result goes to
	Children   int    `json:"children,omitempty"`   // of a parent
	Sequential bool   `json:"sequential,omitempty"` // a parent spawns one after another
}

// Start implements system.System.
func (q *queue) Start(_ context.Context, at system.Setup) error {
	q.redis = redis.NewClient(&redis.Options{Addr: at.Redis, PoolSize: 2 * system.Slots})
	q.client = asynq.NewClientFromRedisClient(q.redis)
	q.server = asynq.NewServerFromRedisClient(q.redis, asynq.Config{
		Concurrency: system.Slots, TaskCheckInterval: idle, LogLevel: asynq.WarnLevel,
	})
	q.ended = make(chan []time.Duration, 1)
	mux := asynq.NewServeMux()
	mux.HandleFunc(kindChild, q.child)
	mux.HandleFunc(kindParent, q.parent)
	return q.server.Start(mux)
}

// Spawn implements system.System.
func (q *queue) Spawn(ctx context.Context, n int) ([]time.Duration, error) {
	return q.run(ctx, order{Children: n, Sequential: true})
}

// FanOut implements system.System.
func (q *queue) FanOut(ctx context.Context, n int) error {
	_, err := q.run(ctx, order{Children: n})
	return err
}

// run has a parent do something and waits until it has.
func (q *queue) run(ctx context.Context, o order) ([]time.Duration, error) {
	if err := q.enqueue(ctx, kindParent, o); err != nil {
		return nil, err
	}
	select {
	case latencies := <-q.ended:
		return latencies, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Independent implements system.System.
func (q *queue) Independent(ctx context.Context, n int) error {
	results := q.list()
	return q.all(ctx, results, n)
}

// Stop implements system.System.
func (q *queue) Stop(context.Context) error {
	q.server.Shutdown()
	return q.redis.Close()
}

// list names a new list of results.
func (q *queue) list() string {
	q.last++
	return fmt.Sprintf("results:%d", q.last)
}

func (q *queue) enqueue(ctx context.Context, kind string, o order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := q.client.EnqueueContext(ctx, asynq.NewTask(kind, payload)); err != nil {
		return fmt.Errorf("enqueueing a %s: %w", kind, err)
	}
	return nil
}

// child does nothing and says so.
func (q *queue) child(ctx context.Context, t *asynq.Task) error {
	var o order
	if err := json.Unmarshal(t.Payload(), &o); err != nil {
		return err
	}
	return q.redis.RPush(ctx, o.Results, "done").Err()
}

func (q *queue) parent(ctx context.Context, t *asynq.Task) error {
	var o order
	if err := json.Unmarshal(t.Payload(), &o); err != nil {
		return err
	}
	var latencies []time.Duration
	var err error
	if o.Sequential {
		latencies, err = q.oneByOne(ctx, q.list(), o.Children)
	} else {
		err = q.all(ctx, q.list(), o.Children)
	}
	if err != nil {
		return err
	}
	q.ended <- latencies
	return nil
}

func (q *queue) oneByOne(ctx context.Context, results string, n int) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if err := q.all(ctx, results, 1); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}

// all enqueues n children and takes their results while that goes on.
func (q *queue) all(ctx context.Context, results string, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return q.join(ctx, results, n) })
	group.Go(func() error {
		enqueue, ctx := errgroup.WithContext(ctx)
		enqueue.SetLimit(enqueuers)
		for range n {
			enqueue.Go(func() error { return q.enqueue(ctx, kindChild, order{Results: results}) })
		}
		return enqueue.Wait()
	})
	return group.Wait()
}

// join takes n results from a list.
func (q *queue) join(ctx context.Context, results string, n int) error {
	for n > 0 {
		_, taken, err := q.redis.BLMPop(ctx, time.Second, "left", batch, results).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for results: %w", err)
		}
		n -= len(taken)
	}
	return nil
}
