package main

import (
	"context"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
)

const (
	hints = "hints"
	group = "workers"
	field = "task"
)

// server keeps the state of tasks in memory and hints at them on a Redis stream.
type server struct {
	redis *redis.Client
	added *batches

	mu    sync.Mutex
	tasks map[uint64]*task
}

type task struct {
	running bool
	parent  *batches // results that its parent's stream has to send
}

func newServer(client *redis.Client) *server {
	return &server{redis: client, added: newBatches(), tasks: map[uint64]*task{}}
}

// announce hints at new tasks, as many at once as have come.
func (s *server) announce(ctx context.Context) error {
	return s.added.drain(ctx, func(tasks []uint64) error {
		_, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, id := range tasks {
				p.XAdd(ctx, &redis.XAddArgs{Stream: hints, Values: []string{field, strconv.FormatUint(id, 10)}})
			}
			return nil
		})
		return err
	})
}

// serveParent takes spawns and sends results.
func (s *server) serveParent(stream grpc.ServerStream) error {
	results := newBatches()
	ctx, cancel := context.WithCancel(stream.Context())
	var sending sync.WaitGroup
	sending.Go(func() {
		// It ends with the stream, whose other half says why.
		_ = results.drain(ctx, func(tasks []uint64) error { return stream.SendMsg(&frame{ended, tasks}) })
	})
	defer sending.Wait()
	defer cancel()
	for {
		var f frame
		if err := stream.RecvMsg(&f); err != nil {
			return err
		}
		s.mu.Lock()
		for _, id := range f.tasks {
			s.tasks[id] = &task{parent: results}
		}
		s.mu.Unlock()
		s.added.add(f.tasks...)
	}
}

// serveWorker takes what a worker says of its tasks.
func (s *server) serveWorker(stream grpc.ServerStream) error {
	for {
		var f frame
		if err := stream.RecvMsg(&f); err != nil {
			return err
		}
		s.mu.Lock()
		for _, id := range f.tasks {
			switch t := s.tasks[id]; {
			case t == nil:
			case f.kind == started:
				t.running = true
			case t.running:
				t.parent.add(id)
				delete(s.tasks, id)
			}
		}
		s.mu.Unlock()
	}
}
