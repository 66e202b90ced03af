// Command orchestrator serves the gRPC API, stores sessions and their trees in the database, and
// gives runs to workers.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/auth"
	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/flags"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tree"
)

type options struct {
	Listen   string `env:"COPPICE_LISTEN" default:"127.0.0.1:7070" help:"host:port to serve gRPC on. :7070 also serves other machines, and requires --tokens."`
	Database string `env:"COPPICE_DATABASE_URL" default:"coppice.db" help:"Path of a SQLite file, or postgres:// URL of a database that several replicas can share."`
	Install  string `name:"installation" env:"COPPICE_INSTALLATION" placeholder:"NAME" help:"Name of a new installation in Redis keys; must be unique there. Default: a random one. The database keeps it permanently."`
	RedisURL string `env:"COPPICE_REDIS_URL" default:"redis://127.0.0.1:6379" help:"Redis that work is announced on."`
	Pool     string `env:"COPPICE_POOL" default:"default" help:"Worker pool that gets the work: 1 to 63 characters of a-z, 0-9 and -."`

	HealthListen string `env:"COPPICE_HEALTH_LISTEN" placeholder:"HOST:PORT" help:"Additional address for health checks (grpc.health.v1), without tokens and TLS; default: none."`

	auth.ServerFlags

	AgentsDir  []string `env:"COPPICE_AGENTS_DIR" help:"Directories of agent definitions; later ones take precedence. Changes take effect within two seconds."`
	PluginsDir string   `env:"COPPICE_PLUGINS_DIR" help:"Directory of plugins, whose agents are also available."`
	Models     string   `env:"COPPICE_MODELS" help:"File that maps model names to models; default: a built-in one."`
	Prices     string   `env:"COPPICE_PRICES" help:"File of model prices, which override the built-in ones. Must be the same for all orchestrators."`

	MetricsListen string `env:"COPPICE_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Address to serve Prometheus metrics on, at /metrics."`
	PprofListen   string `env:"COPPICE_PPROF_LISTEN" placeholder:"HOST:PORT" help:"Loopback address to serve profiles on (/debug/pprof/); default: none."`

	assembly.LimitFlags

	MaxTenant int `env:"COPPICE_MAX_RUNNING_TENANT" default:"0" help:"Maximum number of running tasks of one tenant; others wait. 0 means no limit."`
	MaxAll    int `env:"COPPICE_MAX_RUNNING_ALL" default:"0" help:"Maximum number of running tasks of all tenants; others wait. 0 means no limit. Must be the same for all orchestrators."`

	MaxSessionTokens     int     `env:"COPPICE_MAX_SESSION_TOKENS" default:"0" help:"Maximum number of tokens of all tasks of one session, unless its own budget is smaller; 0 means no limit."`
	MaxSessionCost       float64 `env:"COPPICE_MAX_SESSION_COST" default:"0" placeholder:"DOLLARS" help:"Maximum cost of all tasks of one session, as far as prices are known, unless its own budget is smaller; 0 means no limit."`
	MaxSessionModelCalls int     `env:"COPPICE_MAX_SESSION_MODEL_CALLS" default:"0" help:"Maximum number of model calls of all tasks of one session, unless its own budget is smaller; 0 means no limit."`

	RetainSessions  time.Duration `env:"COPPICE_RETAIN_SESSIONS" default:"0" placeholder:"DURATION" help:"Delete sessions whose runs have all ended and in which nothing has happened for this long, for example 720h; 0 keeps them."`
	CallbackHosts   []string      `env:"COPPICE_CALLBACK_HOSTS" help:"Hosts that on_complete and on_approval may call, as comma-separated globs. Private addresses are called only if their host is named in full."`
	CallbackSecret  string        `env:"COPPICE_CALLBACK_SECRET" help:"Key that signs these calls."`
	CallbackTries   int           `env:"COPPICE_CALLBACK_TRIES" help:"Maximum number of attempts of a call."`
	CallbackTimeout time.Duration `env:"COPPICE_CALLBACK_TIMEOUT" help:"Timeout of one call; 0 means the default."`

	redact.Flags
}

func main() {
	f := options{CallbackTries: callback.DefaultMaxTries, CallbackTimeout: callback.DefaultTimeout}
	assembly.AnswerHealthCheck(os.Args[1:])
	flags.Parse(&f, "Serves the Coppice API and hands work to workers.")
	secrets, err := f.secrets()
	logs := assembly.LogHandler(os.Stderr)
	if err == nil {
		err = run(f, secrets, logs)
	}
	if err != nil {
		slog.New(secrets.Handler(logs)).Error("the orchestrator ended", "error", err)
		os.Exit(1)
	}
}

// secrets returns the secrets in the environment and in flags.
func (f *options) secrets() (*redact.Opened, error) {
	others := append(redact.FromURL("COPPICE_DATABASE_URL", f.Database), redact.FromURL("COPPICE_REDIS_URL", f.RedisURL)...)
	return f.Flags.Open(os.Environ(), append(others, redact.Secret{Name: "COPPICE_CALLBACK_SECRET", Value: f.CallbackSecret})...)
}

// budget returns the maximum budget of a session.
func (f options) budget() (tree.Budget, error) {
	cost, err := tree.Micros(f.MaxSessionCost)
	if err != nil {
		return tree.Budget{}, fmt.Errorf("--max-session-cost is %g; %w", f.MaxSessionCost, err)
	}
	return tree.Budget{Tokens: int64(f.MaxSessionTokens), Cost: cost, ModelCalls: int64(f.MaxSessionModelCalls)}, nil
}

func run(f options, secrets *redact.Opened, logs slog.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks to stop. A second one ends the process.
	context.AfterFunc(ctx, stop)
	budget, err := f.budget()
	if err != nil {
		return err
	}
	limits := tree.DefaultLimits()
	f.Apply(&limits)
	if f.CallbackTries < 1 {
		return fmt.Errorf("--callback-tries is %d, must be at least 1", f.CallbackTries)
	}
	m, err := assembly.Measure(ctx, "coppice-orchestrator", f.MetricsListen, logs, secrets.Redactor)
	if err != nil {
		return err
	}
	defer m.Close()
	log := m.Logger
	defer assembly.LogStopping(ctx, log)()
	secrets.Report(ctx, log)
	stopProfiles, err := assembly.ServeProfiles(ctx, f.PprofListen, log)
	if err != nil {
		return err
	}
	defer stopProfiles()
	security, err := f.ServerFlags.Open(log)
	if err != nil {
		return err
	}
	client, err := assembly.OpenRedis(f.RedisURL)
	if err != nil {
		return err
	}
	defer client.Close()
	if f.Listen == "" { // or any port of all addresses would do
		return errors.New("--listen is empty; it has to be host:port")
	}
	l, err := net.Listen("tcp", f.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	health, err := assembly.ListenHealth(f.HealthListen)
	if err != nil {
		return err
	}
	return assembly.Orchestrator{
		Installation: f.Install, Database: f.Database, Redis: client, Pool: f.Pool, Limits: limits, Budget: budget,
		RunningOfTenant: f.MaxTenant, RunningInAll: f.MaxAll, RetainSessions: f.RetainSessions,
		AgentsDirs: f.AgentsDir, PluginsDir: f.PluginsDir, Models: f.Models, Prices: f.Prices,
		Callbacks: callback.Config{Hosts: f.CallbackHosts, Secret: f.CallbackSecret, MaxTries: f.CallbackTries, Timeout: f.CallbackTimeout},
		Secrets:   secrets.Redactor, Listeners: []net.Listener{l}, Alone: true, Health: health, Security: security, Logger: log, Telemetry: m.Telemetry,
	}.Run(ctx, func() {
		log.Info("serving", "listen", l.Addr().String(), "database", redact.WithoutPassword(f.Database))
	})
}
