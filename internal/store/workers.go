package store

import (
	"context"
	"time"
)

// Worker is a worker as one replica knows it.
type Worker struct {
	ID       string
	Pool     string
	Slots    int
	Version  string
	Started  time.Time
	Draining bool // it must not take another run; not saved by SaveWorkers
}

func workerRow(w *Worker) []any {
	return []any{&w.ID, &w.Pool, &w.Slots, &w.Version, timeColumn{&w.Started}, &w.Draining}
}

// PresentWorker is a worker as all replicas know it.
type PresentWorker struct {
	Worker
	Replicas []string // to which it has streams
	Running  int      // attempts that it has
}

// SaveWorkers records which workers have connected to a replica, and which have left it.
func (s *Store) SaveWorkers(ctx context.Context, replica string, come []Worker, left []string) error {
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		for _, w := range come {
			row := []any{replica, w.ID, w.Pool, w.Slots, w.Version, w.Started.UnixMicro()}
			if err := b.tx.save(ctx, "worker_put", row); err != nil {
				return err
			}
		}
		for _, id := range left {
			if err := b.tx.save(ctx, "worker_drop", []any{replica, id}); err != nil {
				return err
			}
		}
		return nil
	})
}

// workerAt is a worker at a replica.
type workerAt struct {
	Worker
	replica string
}

// workerCount is the number of a worker's attempts.
type workerCount struct {
	worker   string
	attempts int
}

// Workers lists the workers of all replicas, by id, without replicas that have been silent for so
// long. If a worker was restarted under the same id, the newest process counts.
func (s *Store) Workers(ctx context.Context, silent time.Duration) ([]PresentWorker, error) {
	var rows []workerAt
	var counts []workerCount
	err := s.db.load(ctx,
		all(&rows, "workers", func(w *workerAt) []any { return append(workerRow(&w.Worker), &w.replica) },
			s.clock(), silent.Microseconds()),
		all(&counts, "attempts_by_worker", func(c *workerCount) []any { return []any{&c.worker, &c.attempts} }))
	if err != nil {
		return nil, err
	}
	running := map[string]int{}
	for _, c := range counts {
		running[c.worker] = c.attempts
	}
	var workers []PresentWorker
	for _, row := range rows {
		if n := len(workers); n == 0 || workers[n-1].ID != row.ID {
			workers = append(workers, PresentWorker{Worker: row.Worker, Running: running[row.ID]})
		}
		if last := &workers[len(workers)-1]; last.Started.Equal(row.Started) {
			last.Replicas = append(last.Replicas, row.replica)
			last.Draining = last.Draining || row.Draining
		}
	}
	return workers, nil
}

// Drain marks a worker as draining: it must not take another run.
func (s *Store) Drain(ctx context.Context, w Worker) error {
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		return b.tx.save(ctx, "worker_drain", []any{s.clock(), w.ID, w.Pool, w.Slots, w.Version, w.Started.UnixMicro()})
	})
}

// WorkersOf lists the workers of a replica.
func (s *Store) WorkersOf(ctx context.Context, replica string) ([]Worker, error) {
	return query(ctx, s.db, "workers_of", workerRow, replica)
}
