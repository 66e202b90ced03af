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
	Orchestrator string   `env:"COPPICE_ORCHESTRATOR" default:"127.0.0.1:7070" help:"Addresses of the orchestrators: host:port, comma-separated; a host name may resolve to several addresses."`
	RedisURL     string   `env:"COPPICE_REDIS_URL" default:"redis://127.0.0.1:6379" help:"Redis that work is pulled from."`
	Pool         string   `env:"COPPICE_POOL" default:"default" help:"Worker pool to join: 1 to 63 characters of a-z, 0-9 and -."`
	Slots        int      `env:"COPPICE_SLOTS" default:"16" help:"Number of runs to carry at once."`
	Workspace    string   `env:"COPPICE_WORKSPACE" xor:"workspace" placeholder:"DIR" help:"Directory that all sessions work in; default: the current one."`
	Workspaces   string   `env:"COPPICE_WORKSPACES" xor:"workspace" placeholder:"ROOT" help:"Directory in which each session gets its own directory, instead of --workspace."`
	SkillsDir    []string `env:"COPPICE_SKILLS_DIR" help:"Directories of skills, in addition to those of the workspace."`
	PluginsDir   string   `env:"COPPICE_PLUGINS_DIR" help:"Directory of plugins, whose skills are also available."`

	FetchAllow  []string `env:"COPPICE_FETCH_ALLOW" placeholder:"HOST|CIDR,..." help:"What web_fetch may reach in addition to the internet: globs of host names, addresses and CIDR ranges."`
	BashNetwork bool     `env:"COPPICE_BASH_NETWORK" help:"Allow commands to use the network."`

	DrainFor time.Duration `env:"COPPICE_DRAIN_FOR" default:"0" placeholder:"DURATION" help:"On SIGTERM or SIGINT, continue current runs and background commands for up to this long, for example 10m. After that, or on a second signal, the rest is given back. 0 gives everything back at once."`

	MetricsListen string `env:"COPPICE_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Address to serve Prometheus metrics on, at /metrics."`
	PprofListen   string `env:"COPPICE_PPROF_LISTEN" placeholder:"HOST:PORT" help:"Loopback address to serve profiles on (/debug/pprof/); default: none."`

	MCPConfig string `name:"mcp-config" env:"COPPICE_MCP_CONFIG" placeholder:"FILE" help:"MCP servers whose tools agents may use: YAML or JSON with the key mcpServers."`

	provider.Flags
	auth.ClientFlags
	HealthListen string       `env:"COPPICE_HEALTH_LISTEN" placeholder:"HOST:PORT" help:"Additional address for health checks (grpc.health.v1), without tokens and TLS; default: none."`
	AliveListen  string       `env:"COPPICE_ALIVE_LISTEN" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address on which orchestrators can check whether this process is alive, so that its runs are redelivered at once when it dies. It must be on the host that its calls come from. Empty: none."`
	Redact       redact.Flags `embed:""`
	sandbox.Options

	Hooks           string `env:"COPPICE_HOOKS" help:"YAML file of hooks for the start and stop of sub-agents."`
	DefinitionHooks bool   `env:"COPPICE_DEFINITION_HOOKS" help:"Also run the hooks in agent definitions. Everyone who can define agents can then run commands here."`
}

func main() {
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
		m.Logger.Warn("no model provider is configured, so agents run the built-in demo scenario: configure one, or name a scenario", "variables", provider.Variables())
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
	if f.Slots < 1 || f.Slots > assembly.MaxSlots {
		return fmt.Errorf("--slots is %d, must be from 1 to %d", f.Slots, assembly.MaxSlots)
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
		Model: chosen.Model, Limiter: chosen.Limiter, Logger: log, Telemetry: m.Telemetry,
		Hooks: hooks, DefinitionHooks: f.DefinitionHooks, FetchAllow: f.FetchAllow, Health: health, Alive: living, DrainFor: f.DrainFor, StopDraining: hurry, Secrets: secrets.Redactor, BashNetwork: f.BashNetwork, MCP: servers, Sandbox: f.Options, Alone: true,
	}.Run(ctx)
}
