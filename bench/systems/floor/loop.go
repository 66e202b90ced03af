package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coppice-run/coppice/bench/system"
)

const (
	// pulled is how many hints a worker takes at once.
	pulled = 500
	// spawns is how many children a message holds.
	spawns = 1000
)

// loop is a server, a worker and a parent in this process, Redis beside it.
type loop struct {
	redis  *redis.Client
	server *grpc.Server
	conn   *grpc.ClientConn
	parent grpc.ClientStream
	last   uint64 // task
	stop   context.CancelFunc
	parts  *errgroup.Group
}

// Start implements system.System.
func (l *loop) Start(ctx context.Context, at system.Setup) error {
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.parts, ctx = errgroup.WithContext(ctx)
	l.redis = redis.NewClient(&redis.Options{Addr: at.Redis, ContextTimeoutEnabled: true})
	if err := l.redis.XGroupCreateMkStream(ctx, hints, group, "0").Err(); err != nil {
		return fmt.Errorf("making the stream: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	hub := newServer(l.redis)
	l.server = grpc.NewServer(grpc.ForceServerCodec(codec{}))
	l.server.RegisterService(&service, hub)
	l.parts.Go(func() error { return l.server.Serve(listener) })
	l.parts.Go(func() error { return hub.announce(ctx) })
	l.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	if err != nil {
		return err
	}
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	worker, err := l.conn.NewStream(ctx, desc, methodWorker)
	if err != nil {
		return fmt.Errorf("opening the worker's stream: %w", err)
	}
	l.parts.Go(func() error { return l.work(ctx, worker) })
	if l.parent, err = l.conn.NewStream(ctx, desc, methodParent); err != nil {
		return fmt.Errorf("opening the parent's stream: %w", err)
	}
	return nil
}

// work pulls hints, says that their tasks run, and says that they have ended.
func (l *loop) work(ctx context.Context, stream grpc.ClientStream) error {
	for {
		pull := &redis.XReadGroupArgs{Group: group, Consumer: "worker", Streams: []string{hints, ">"}, Count: pulled, Block: time.Second}
		found, err := l.redis.XReadGroup(ctx, pull).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return fmt.Errorf("pulling: %w", err)
		}
		var names []string
		var tasks []uint64
		for _, m := range found[0].Messages {
			text, ok := m.Values[field].(string)
			id, err := strconv.ParseUint(text, 10, 64)
			if !ok || err != nil {
				return fmt.Errorf("a hint without a task: %v", m.Values)
			}
			names, tasks = append(names, m.ID), append(tasks, id)
		}
		if err := stream.SendMsg(&frame{started, tasks}); err != nil {
			return err
		}
		if err := stream.SendMsg(&frame{ended, tasks}); err != nil {
			return err
		}
		_, err = l.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.XAck(ctx, hints, group, names...)
			p.XDel(ctx, hints, names...)
			return nil
		})
		if err != nil {
			return fmt.Errorf("acknowledging: %w", err)
		}
	}
}

// Spawn implements system.System.
func (l *loop) Spawn(ctx context.Context, n int) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if err := l.FanOut(ctx, 1); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}

// FanOut implements system.System. The parent's stream is the parent.
func (l *loop) FanOut(ctx context.Context, n int) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		for left := n; left > 0 && ctx.Err() == nil; left -= spawns {
			tasks := make([]uint64, min(left, spawns))
			for i := range tasks {
				l.last++
				tasks[i] = l.last
			}
			if err := l.parent.SendMsg(&frame{spawned, tasks}); err != nil {
				return fmt.Errorf("spawning: %w", err)
			}
		}
		return nil
	})
	both.Go(func() error {
		for left := n; left > 0; {
			var f frame
			if err := l.parent.RecvMsg(&f); err != nil {
				return fmt.Errorf("waiting for results: %w", err)
			}
			left -= len(f.tasks)
		}
		return nil
	})
	return both.Wait()
}

// Independent implements system.System.
func (l *loop) Independent(ctx context.Context, n int) error { return l.FanOut(ctx, n) }

// Stop implements system.System.
func (l *loop) Stop(ctx context.Context) error {
	l.stop()
	l.server.Stop()
	l.conn.Close()
	if err := l.parts.Wait(); err != nil {
		slog.DebugContext(ctx, "the loop has ended", slog.Any("error", err))
	}
	return l.redis.Close()
}
