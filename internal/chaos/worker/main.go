// Command worker is the worker of a chaos campaign: a normal worker with a witness around it.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/coppice-run/coppice/internal/alive"
	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/chaos"
	"github.com/coppice-run/coppice/internal/flags"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/sandbox"
)

type options struct {
	Orchestrators []string `required:"" help:"Addresses of all orchestrators, as seen by this worker."`
	RedisURL      string   `required:"" help:"Address of Redis, as seen by this worker."`
	Slots         int      `default:"16" help:"Number of runs to carry at once."`
	Workspaces    string   `required:"" help:"Directory for the sessions' directories."`
	Hooks         string   `required:"" help:"File of hooks."`
	Scenario      string   `required:"" help:"Scenario file."`
	Log           string   `required:"" help:"File to write the records to."`
	Name          string   `required:"" help:"Name in the records."`
}

func main() {
	var f options
	flags.Parse(&f, "Runs agents for a campaign, and records what it is told.")
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(f, log); err != nil {
		log.Error("the worker ended", "error", err)
		os.Exit(1)
	}
}

func run(f options, log *slog.Logger) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	scenario, err := scripted.Load(f.Scenario)
	if err != nil {
		return err
	}
	hooks, err := hook.Load(f.Hooks)
	if err != nil {
		return err
	}
	records, err := chaos.OpenLog(f.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	witness := chaos.NewWitness(records, f.Name)
	client, err := assembly.OpenRedis(f.RedisURL)
	if err != nil {
		return err
	}
	defer client.Close()
	replicas := manual.NewBuilderWithScheme("replicas")
	state := resolver.State{}
	for _, addr := range f.Orchestrators {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
	}
	replicas.InitialState(state)
	conn, err := assembly.Connect("replicas:///", grpc.WithResolvers(replicas), grpc.WithStreamInterceptor(witness.Streams()))
	if err != nil {
		return err
	}
	defer conn.Close()
	living, err := alive.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	return assembly.Worker{
		Orchestrator: conn, Redis: client, Pool: assembly.DefaultPool, Slots: f.Slots, Workspaces: f.Workspaces,
		Model: witness.Model(scripted.New(scenario)), Logger: log, Tools: witness.Tools(),
		Alive: living, Hooks: hooks, Alone: true, Sandbox: sandbox.Options{Sandbox: "off"}, // its commands are those of the scenario
	}.Run(ctx)
}
