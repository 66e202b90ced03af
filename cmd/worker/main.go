// Command worker claims ready runs of an orchestrator and executes them.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/internal/alive"
	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/auth"
	"github.com/coppice-run/coppice/internal/flags"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/mcp"
	"github.com/coppice-run/coppice/internal/model/provider"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/sandbox"
)

type options struct {
	Orchestrator string   `env:"COPPICE_ORCHESTRATOR" default:"127.0.0.1:7070" help:"Orchestrators to work for: host:port, whose name may have several addresses, or several with commas between them."`
	RedisURL     string   `env:"COPPICE_REDIS_URL" default:"redis://127.0.0.1:6379" help:"Redis to pull work from."`
	Pool         string   `env:"COPPICE_POOL" default:"default" help:"Pool to serve: 1 to 63 of a-z, 0-9 and -."`
	Slots        int      `env:"COPPICE_SLOTS" default:"16" help:"Runs to carry at once."`
	Workspace    string   `env:"COPPICE_WORKSPACE" xor:"workspace" placeholder:"DIR" help:"Directory that all sessions work in; by default this one."`
	Workspaces   string   `env:"COPPICE_WORKSPACES" xor:"workspace" placeholder:"ROOT" help:"Directory below which each session has its own, in the place of --workspace."`
	SkillsDir    []string `env:"COPPICE_SKILLS_DIR" help:"Directories of skills, beside those of the workspace."`
	PluginsDir   string   `env:"COPPICE_PLUGINS_DIR" help:"Directory of plugins, whose skills can be loaded too."`

	FetchAllow  []string `env:"COPPICE_FETCH_ALLOW" placeholder:"HOST|CIDR,..." help:"What web_fetch may reach beside the internet: globs of host names, addresses and ranges of them."`
	BashNetwork bool     `env:"COPPICE_BASH_NETWORK" help:"Let commands use the network."`

	DrainFor time.Duration `env:"COPPICE_DRAIN_FOR" default:"0" placeholder:"DURATION" help:"When told to stop, go on for so long with the runs that there are, and with commands in the background, like 10m; then, or when told again, what is left is given back. 0 gives all back at once."`

	MetricsListen string `env:"COPPICE_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Where metrics can be fetched as a page for Prometheus: /metrics."`
	PprofListen   string `env:"COPPICE_PPROF_LISTEN" placeholder:"HOST:PORT" help:"Where to serve profiles of this process (/debug/pprof/), to this machine alone; by default nowhere."`

	MCPConfig string `name:"mcp-config" env:"COPPICE_MCP_CONFIG" placeholder:"FILE" help:"MCP servers whose tools agents may use: YAML or JSON with the key mcpServers."`

	provider.Flags
	auth.ClientFlags
	HealthListen string       `env:"COPPICE_HEALTH_LISTEN" placeholder:"HOST:PORT" help:"Where to answer questions about health (grpc.health.v1) as well, to anybody and without TLS; by default nowhere."`
	AliveListen  string       `env:"COPPICE_ALIVE_LISTEN" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where to tell orchestrators that this process lives, so that its runs need not wait once it is dead; on the host that they see its calls come from. Empty: nowhere."`
	Redact       redact.Flags `embed:""`
	sandbox.Options

	Hooks           string `env:"COPPICE_HOOKS" help:"YAML file of hooks on the start and stop of sub-agents."`
	DefinitionHooks bool   `env:"COPPICE_DEFINITION_HOOKS" help:"Run the hooks that come with agents' definitions as well: whoever may define agents may then run commands here."`
}

func main() {
	sandbox.Init()
	var f options
	assembly.AnswerHealthCheck(os.Args[1:])
	flags.Parse(&f, "Runs agents for a Coppice orchestrator.")
	secrets, err := f.Redact.Open(os.Environ(), append(redact.FromURL("COPPICE_REDIS_URL", f.RedisURL), redact.Secret{Name: "COPPICE_TOKEN", Value: f.Token})...)
	logs := assembly.LogHandler(os.Stderr)
	if err == nil {
		err = run(f, secrets, logs)
	}
	if err != nil {
		slog.New(secrets.Handler(logs)).Error("the worker ended", "error", err)
		os.Exit(1)
	}
}

// read reads the files that flags name.
func (f *options) read() (hooks []hook.Spec, servers []mcp.Server, err error) {
	if f.Hooks != "" {
		if hooks, err = hook.Load(f.Hooks); err != nil {
			return nil, nil, err
		}
	}
	if f.MCPConfig != "" {
		servers, err = mcp.Load(f.MCPConfig, os.LookupEnv)
	}
	return hooks, servers, err
}

// choose chooses the model of this process's agents.
func (f *options) choose(m *assembly.Instruments) (provider.Choice, error) {
	tries, err := m.RetryMetrics()
	if err != nil {
		return provider.Choice{}, err
	}
	chosen, err := provider.Choose(f.Flags, os.Getenv, m.Logger, tries)
	if chosen.Demo {
		m.Logger.Warn("no provider is set up, so agents play the built-in demo: set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL, or name a scenario")
	}
	return chosen, err
}

// signals returns a context that ends with the first signal to stop, and a channel that the second
// signal closes. A third signal ends the process.
func signals() (ctx context.Context, hurry <-chan struct{}) {
	ctx, end := context.WithCancel(context.Background())
	asked, second := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	go func() { // runs as long as the process
		<-asked
		end()
		<-asked
		signal.Stop(asked)
		close(second)
	}()
	return ctx, second
}

func run(f options, secrets *redact.Opened, logs slog.Handler) error {
	if f.Slots < 1 {
		return fmt.Errorf("--slots is %d, must be at least 1", f.Slots)
	}
	ctx, hurry := signals()
	m, err := assembly.Measure(ctx, "coppice-worker", f.MetricsListen, logs, secrets.Redactor)
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
	chosen, err := f.choose(m)
	if err != nil {
		return err
	}
	hooks, servers, err := f.read()
	if err != nil {
		return err
	}
	client, err := assembly.OpenRedis(f.RedisURL)
	if err != nil {
		return err
	}
	defer client.Close()
	options, err := f.ClientFlags.Options(f.Orchestrator, log)
	if err != nil {
		return err
	}
	conn, err := assembly.Connect(f.Orchestrator, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	health, err := assembly.ListenHealth(f.HealthListen)
	if err != nil {
		return err
	}
	living, err := alive.Listen(f.AliveListen)
	if err != nil {
		return err
	}
	if f.Workspace+f.Workspaces == "" {
		f.Workspace = "."
	}
	return assembly.Worker{
		OnReady: func() {
			log.Info("working", "orchestrator", f.Orchestrator, "pool", f.Pool, "slots", f.Slots, "model", chosen.Description)
		},
		Orchestrator: conn, Redis: client, Pool: f.Pool, Slots: f.Slots,
		Workspace: f.Workspace, Workspaces: f.Workspaces, SkillsDirs: f.SkillsDir, PluginsDir: f.PluginsDir,
		Model: chosen.Model, Governor: chosen.Limiter, Logger: log, Telemetry: m.Telemetry,
		Hooks: hooks, DefinitionHooks: f.DefinitionHooks, FetchAllow: f.FetchAllow, Health: health, Alive: living, DrainFor: f.DrainFor, StopDraining: hurry, Secrets: secrets.Redactor, BashNetwork: f.BashNetwork, MCP: servers, Sandbox: f.Options,
	}.Run(ctx)
}
