package services

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/bench/process"
	"github.com/coppice-run/coppice/bench/system"
)

// Redis is a redis-server with its built-in settings, which are those of Debian's package.
type Redis struct {
	*process.Process

	Address string // host:port
}

// StartRedis starts a server with its snapshots in dir.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	port, err := system.FreePort()
	if err != nil {
		return nil, err
	}
	args := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir}
	p, err := process.Start("redis", "redis-server", args, dir, nil)
	if err != nil {
		return nil, err
	}
	r := &Redis{p, system.Address(port)}
	// A connection is enough, because the server has nothing to load. A client would pause
	// between two tries.
	if err := p.Await(ctx, func(ctx context.Context) error { return process.Listens(ctx, r.Address) }); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return r, nil
}

// Client returns a new client; close it.
func (r *Redis) Client() *redis.Client { return redis.NewClient(&redis.Options{Addr: r.Address}) }

// Stop kills the server; its data is no longer needed.
func (r *Redis) Stop() error { return r.Kill() }
