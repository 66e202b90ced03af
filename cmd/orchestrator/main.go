// Command orchestrator serves the gRPC API, stores sessions and their trees in the database, and
// gives runs to workers.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
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
	Listen   string `env:"COPPICE_LISTEN" default:"127.0.0.1:7070" help:"host:port to serve gRPC on; :7070 serves other machines too, and needs --tokens."`
	Database string `env:"COPPICE_DATABASE_URL" default:"coppice.db" help:"Path of a SQLite file, or the postgres:// URL of a database that replicas share."`
	Install  string `name:"installation" env:"COPPICE_INSTALLATION" placeholder:"NAME" help:"Name of a new installation in Redis's keys, different from all others there; by default a random one. A database keeps it for ever."`
	RedisURL string `env:"COPPICE_REDIS_URL" default:"redis://127.0.0.1:6379" help:"Redis to announce work on."`
	Pool     string `env:"COPPICE_POOL" default:"default" help:"Pool of workers that gets the work: 1 to 63 of a-z, 0-9 and -."`

	HealthListen string `env:"COPPICE_HEALTH_LISTEN" placeholder:"HOST:PORT" help:"Where to answer questions about health (grpc.health.v1) as well, to anybody and without TLS; by default nowhere."`

	auth.ServerFlags

	AgentsDir  []string `env:"COPPICE_AGENTS_DIR" help:"Directories of agents; the later goes before the earlier. Changes are taken in within a second or two."`
	PluginsDir string   `env:"COPPICE_PLUGINS_DIR" help:"Directory of plugins, whose agents are taken in too."`
	Models     string   `env:"COPPICE_MODELS" help:"File of what the names of models stand for; by default the one that is built in."`
	Prices     string   `env:"COPPICE_PRICES" help:"File of what models cost, which goes before what is built in. All orchestrators have to say the same."`

	MetricsListen string `env:"COPPICE_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Where metrics can be fetched as a page for Prometheus: /metrics."`
	PprofListen   string `env:"COPPICE_PPROF_LISTEN" placeholder:"HOST:PORT" help:"Where to serve profiles of this process (/debug/pprof/), to this machine alone; by default nowhere."`

	MaxDepth   int `env:"COPPICE_MAX_DEPTH" help:"How far below the root a task may be."`
	MaxWidth   int `env:"COPPICE_MAX_WIDTH" help:"Children one task may ever have."`
	MaxTotal   int `env:"COPPICE_MAX_TOTAL" help:"Tasks of one session."`
	MaxRunning int `env:"COPPICE_MAX_RUNNING" help:"Tasks of one session with workers at once; more are queued."`
	MaxQueue   int `env:"COPPICE_MAX_QUEUE" help:"Tasks of one session that may wait for a worker; 0 is no cap."`
	MaxTenant  int `env:"COPPICE_MAX_RUNNING_TENANT" default:"0" help:"Tasks of one tenant with workers at once; more wait; 0 is no cap."`
	MaxAll     int `env:"COPPICE_MAX_RUNNING_ALL" default:"0" help:"Tasks of all tenants with workers at once; more wait; 0 is no cap. All orchestrators have to say the same."`
	MaxOutput  int `env:"COPPICE_MAX_OUTPUT_BYTES" help:"Bytes of a task's output that are shown; of longer output the end; 0 is the default."`
	MaxPart    int `env:"COPPICE_MAX_PART_BYTES" help:"Bytes of one message part."`

	MaxIterations    int `env:"COPPICE_MAX_ITERATIONS" help:"Model calls of a root's run, unless its agent says otherwise."`
	MaxIterationsSub int `env:"COPPICE_MAX_ITERATIONS_SUB" help:"Model calls of a sub-agent's run, unless its agent or the call says otherwise."`

	RunTimeout time.Duration `env:"COPPICE_RUN_TIMEOUT" default:"0" placeholder:"DURATION" help:"How long a run may be with workers in all, unless its agent or the call says otherwise, like 30m; 0 is for ever."`

	MaxSessionTokens     int     `env:"COPPICE_MAX_SESSION_TOKENS" default:"0" help:"Tokens that all tasks of one session may use together, unless it was opened with a smaller budget; 0 is no bound."`
	MaxSessionCost       float64 `env:"COPPICE_MAX_SESSION_COST" default:"0" placeholder:"DOLLARS" help:"What they may cost together, as far as prices are known; 0 is no bound."`
	MaxSessionModelCalls int     `env:"COPPICE_MAX_SESSION_MODEL_CALLS" default:"0" help:"Calls of models that they may make together; 0 is no bound."`

	NoBackground    bool          `env:"COPPICE_NO_BACKGROUND" help:"What agents ask to run in the background runs in the foreground, in sessions that are opened from now on."`
	RetainSessions  time.Duration `env:"COPPICE_RETAIN_SESSIONS" default:"0" placeholder:"DURATION" help:"Delete sessions in which nothing runs and nothing has happened for so long, like 720h; 0 keeps them."`
	CallbackHosts   []string      `env:"COPPICE_CALLBACK_HOSTS" help:"Hosts that on_complete and on_approval may call: globs, with commas between them. A private address is called only if its host is named in full."`
	CallbackSecret  string        `env:"COPPICE_CALLBACK_SECRET" help:"Key that signs those calls."`
	CallbackTries   int           `env:"COPPICE_CALLBACK_TRIES" help:"How often a call is tried."`
	CallbackTimeout time.Duration `env:"COPPICE_CALLBACK_TIMEOUT" help:"How long one call may take; 0 is the default."`

	redact.Flags

	assembly.ApprovalFlags
}

func main() {
	limits := tree.DefaultLimits()
	f := options{
		MaxDepth: limits.Depth, MaxWidth: limits.Width, MaxTotal: limits.Total, MaxRunning: limits.Running, MaxQueue: limits.Queue,
		MaxIterations: limits.RootIterations, MaxIterationsSub: limits.SubIterations,
		MaxOutput: limits.OutputBytes, MaxPart: limits.PartBytes,
		CallbackTries: callback.DefaultMaxTries, CallbackTimeout: callback.DefaultTimeout,
	}
	assembly.AnswerHealthCheck(os.Args[1:])
	flags.Parse(&f, "Serves the Coppice API and hands work to workers.")
	limits.Depth, limits.Width, limits.Total = f.MaxDepth, f.MaxWidth, f.MaxTotal
	limits.Running, limits.Queue, limits.PartBytes = f.MaxRunning, f.MaxQueue, f.MaxPart
	limits.RootIterations, limits.SubIterations = f.MaxIterations, f.MaxIterationsSub
	limits.RunTimeout = f.RunTimeout
	limits.OutputBytes, limits.NoBackground = f.MaxOutput, f.NoBackground
	f.Apply(&limits)
	secrets, err := f.secrets()
	logs := assembly.LogHandler(os.Stderr)
	if err == nil {
		err = run(f, limits, secrets, logs)
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

// maxDollars is the maximum of --max-session-cost.
const maxDollars = 1e9

// budget returns the maximum budget of a session.
func (f options) budget() (tree.Budget, error) {
	if !(f.MaxSessionCost >= 0 && f.MaxSessionCost <= maxDollars) { // also refuses NaN
		return tree.Budget{}, fmt.Errorf("--max-session-cost %g must be from 0 to %g", f.MaxSessionCost, maxDollars)
	}
	return tree.Budget{
		Tokens: int64(f.MaxSessionTokens), Cost: int64(math.Ceil(f.MaxSessionCost * 1e6)), ModelCalls: int64(f.MaxSessionModelCalls),
	}, nil
}

func run(f options, limits tree.Limits, secrets *redact.Opened, logs slog.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks to stop. A second one ends the process.
	context.AfterFunc(ctx, stop)
	budget, err := f.budget()
	if err != nil {
		return err
	}
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
		Secrets:   secrets.Redactor, Listeners: []net.Listener{l}, Health: health, Security: security, Logger: log, Telemetry: m.Telemetry,
	}.Run(ctx, func() {
		log.Info("serving", "listen", l.Addr().String(), "database", redact.WithoutPassword(f.Database))
	})
}
