package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// join says how a parent hears of a child's end.
type join string

const (
	// joinRecorded: by an event, after River has recorded the ends of many at once.
	joinRecorded join = "recorded"
	// joinCommitted: the child records its end itself, in a transaction of its own.
	// For one child that is faster, since River gathers ends for up to 250 ms.
	joinCommitted join = "committed"
	// joinEager: from the child's work, in memory, before its end is recorded.
	joinEager join = "eager"
)

// childArgs are those of a job that does nothing.
type childArgs struct {
	Group int64 `json:"group"`
	Join  join  `json:"join"`
}

// Kind implements river.JobArgs.
func (childArgs) Kind() string { return "child" }

// groupOf gives whom to tell of a recorded end.
func groupOf(args []byte) (int64, bool) {
	var child childArgs
	if err := json.Unmarshal(args, &child); err != nil {
		return 0, false
	}
	return child.Group, child.Join == joinRecorded
}

type parentArgs struct {
	Children   int  `json:"children"`
	Sequential bool `json:"sequential"`
}

// Kind implements river.JobArgs.
func (parentArgs) Kind() string { return "parent" }

type childWorker struct {
	river.WorkerDefaults[childArgs]

	queue *queue
}

// Work implements river.Worker.
func (w *childWorker) Work(ctx context.Context, job *river.Job[childArgs]) error {
	if err := river.RecordOutput(ctx, "done"); err != nil {
		return fmt.Errorf("recording a result: %w", err)
	}
	switch job.Args.Join {
	case joinCommitted:
		if err := commitEnd(ctx, w.queue.pool, job); err != nil {
			return err
		}
	case joinRecorded:
		return nil
	case joinEager:
	}
	w.queue.joins.done(job.Args.Group)
	return nil
}

// commitEnd records the end of a job in a transaction of its own.
func commitEnd[Args river.JobArgs](ctx context.Context, pool *pgxpool.Pool, job *river.Job[Args]) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("beginning the end of a job: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // committed by then, or broken
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return fmt.Errorf("recording the end of a job: %w", err)
	}
	return tx.Commit(ctx)
}

type parentWorker struct {
	river.WorkerDefaults[parentArgs]

	queue *queue
}

// Work implements river.Worker.
func (w *parentWorker) Work(ctx context.Context, job *river.Job[parentArgs]) error {
	var latencies []time.Duration
	var err error
	if job.Args.Sequential {
		latencies, err = w.queue.oneByOne(ctx, job.Args.Children)
	} else {
		err = w.queue.all(ctx, job.Args.Children)
	}
	if err == nil && !w.queue.eager {
		err = commitEnd(ctx, w.queue.pool, job)
	}
	if err != nil {
		return err
	}
	w.queue.ended <- latencies
	return nil
}

// joins are the parents that wait for results, by group.
type joins struct {
	mu   sync.Mutex
	open map[int64]chan struct{}
}

// begin gives a channel on which up to n results arrive.
func (j *joins) begin(group int64, n int) <-chan struct{} {
	results := make(chan struct{}, n)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[group] = results
	return results
}

func (j *joins) end(group int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.open, group)
}

// done is a result. Those of a group that is not open are nobody's.
func (j *joins) done(group int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case j.open[group] <- struct{}{}:
	default: // a job that ran twice
	}
}

// take waits for n results.
func take(ctx context.Context, results <-chan struct{}, n int) error {
	for range n {
		select {
		case <-results:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
