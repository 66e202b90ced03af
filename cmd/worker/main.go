// Command worker pulls ready runs from Redis and carries them forward for an
// orchestrator.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/model/scripted"
)

type flags struct {
	Orchestrator string `env:"COPPICE_ORCHESTRATOR" default:"127.0.0.1:7070" help:"Orchestrators to work for: host:port, whose name may have several addresses, or several with commas between them."`
	RedisURL     string `env:"COPPICE_REDIS_URL" default:"redis://127.0.0.1:6379" help:"Redis to pull work from."`
	Pool         string `env:"COPPICE_POOL" default:"default" help:"Pool to serve."`
	Slots        int    `env:"COPPICE_SLOTS" default:"16" help:"Runs to carry at once."`
	Workspace    string `env:"COPPICE_WORKSPACE" default:"." help:"Directory that the file tools work in."`
	Scenario     string `env:"COPPICE_SCENARIO" help:"Scenario file for the scripted model; by default the built-in survey."`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Description("Runs agents for a Coppice orchestrator."))
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(f, log); err != nil {
		log.Error("the worker ended", "error", err)
		os.Exit(1)
	}
}

func run(f flags, log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	scenario := scripted.Survey()
	if f.Scenario != "" {
		var err error
		if scenario, err = scripted.Load(f.Scenario); err != nil {
			return err
		}
	}
	client, err := assembly.OpenRedis(f.RedisURL)
	if err != nil {
		return err
	}
	defer client.Close()
	conn, err := assembly.Connect(f.Orchestrator)
	if err != nil {
		return err
	}
	defer conn.Close()
	log.Info("working", "orchestrator", f.Orchestrator, "pool", f.Pool, "slots", f.Slots)
	return assembly.Worker{
		Orchestrator: conn, Redis: client, Pool: f.Pool, Slots: f.Slots,
		Workspace: f.Workspace, Model: scripted.New(scenario), Logger: log,
	}.Run(ctx)
}
