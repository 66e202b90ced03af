// Command orchestrator serves the gRPC API, keeps sessions and their trees in
// the database, and hands runs to workers.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/tree"
)

type flags struct {
	Listen   string `env:"COPPICE_LISTEN" default:":7070" help:"host:port to serve gRPC on."`
	Database string `env:"COPPICE_DATABASE_URL" default:"coppice.db" help:"Path of a SQLite file, or the postgres:// URL of a database that replicas share."`
	RedisURL string `env:"COPPICE_REDIS_URL" default:"redis://127.0.0.1:6379" help:"Redis to announce work on."`
	Pool     string `env:"COPPICE_POOL" default:"default" help:"Pool of workers that gets the work."`

	MaxDepth   int `env:"COPPICE_MAX_DEPTH" default:"${depth}" help:"How far below the root a task may be."`
	MaxWidth   int `env:"COPPICE_MAX_WIDTH" default:"${width}" help:"Children one task may ever have."`
	MaxTotal   int `env:"COPPICE_MAX_TOTAL" default:"${total}" help:"Tasks of one session."`
	MaxRunning int `env:"COPPICE_MAX_RUNNING" default:"${running}" help:"Tasks of one session with workers at once; more are queued."`
	MaxPart    int `env:"COPPICE_MAX_PART_BYTES" default:"${part}" help:"Bytes of one message part."`
}

func main() {
	limits := tree.DefaultLimits()
	var f flags
	kong.Parse(&f, kong.Description("Serves the Coppice API and hands work to workers."), kong.Vars{
		"depth": fmt.Sprint(limits.Depth), "width": fmt.Sprint(limits.Width), "total": fmt.Sprint(limits.Total),
		"running": fmt.Sprint(limits.Running), "part": fmt.Sprint(limits.PartBytes),
	})
	limits.Depth, limits.Width, limits.Total = f.MaxDepth, f.MaxWidth, f.MaxTotal
	limits.Running, limits.PartBytes = f.MaxRunning, f.MaxPart
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(f, limits, log); err != nil {
		log.Error("the orchestrator ended", "error", err)
		os.Exit(1)
	}
}

func run(f flags, limits tree.Limits, log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := assembly.OpenRedis(f.RedisURL)
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := net.Listen("tcp", f.Listen)
	if err != nil {
		return err
	}
	return assembly.Orchestrator{
		Database: f.Database, Redis: client, Pool: f.Pool, Limits: limits,
		Listeners: []net.Listener{l}, Logger: log,
	}.Run(ctx, func() { log.Info("serving", "listen", l.Addr().String(), "database", f.Database) })
}
