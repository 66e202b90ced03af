package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/auth"
	"github.com/coppice-run/coppice/internal/redact"
)

type devCommand struct {
	Listen     string `default:"127.0.0.1:7070" placeholder:"HOST:PORT" help:"Address to serve on; port 0 picks a free one."`
	Data       string `placeholder:"DIR" help:"Directory for the data; default: $XDG_STATE_HOME/coppice or ~/.local/state/coppice."`
	RedisURL   string `name:"redis-url" placeholder:"URL" help:"Redis to use; default: an embedded one."`
	Workspace  string `xor:"workspace" placeholder:"DIR" help:"Directory that all sessions work in; default: the current one."`
	Workspaces string `xor:"workspace" placeholder:"ROOT" help:"Directory in which each session gets its own directory, instead of --workspace."`
	Slots      int    `default:"16" help:"Number of runs to carry at once."`

	MetricsListen string `placeholder:"HOST:PORT" help:"Address to serve Prometheus metrics on, at /metrics."`
	PprofListen   string `name:"pprof-listen" placeholder:"HOST:PORT" help:"Loopback address to serve profiles on (/debug/pprof/); default: none."`

	localFlags
	assembly.ApprovalFlags
	auth.TokenFlags
}

// Run serves until ctx ends.
func (d *devCommand) Run(ctx context.Context, a *app) error {
	if d.Slots < 1 || d.Slots > assembly.MaxSlots {
		return usagef("--slots is %d; it has to be from 1 to %d", d.Slots, assembly.MaxSlots)
	}
	if d.ApprovalTimeout < 0 {
		return usagef("--approval-timeout %s is negative", d.ApprovalTimeout)
	}
	if err := cmp.Or(isDirectory("--workspace", d.Workspace), isDirectory("--workspaces", d.Workspaces), isNoFile("--data", d.Data)); err != nil {
		return err
	}
	m, err := a.measure(ctx, d.MetricsListen, d.Redact, slog.NewTextHandler(a.Stderr, nil), redact.FromURL("COPPICE_REDIS_URL", d.RedisURL)...)
	if err != nil {
		return err
	}
	defer m.Close()
	install, chosen, err := d.devConfig(a, m)
	if err != nil {
		return err
	}
	if install.Security, err = d.Open(m.Logger); err != nil {
		return usagef("%w", err)
	}
	if err := d.mayListen(ctx, install.Security); err != nil {
		return err
	}
	if install.DataDir, err = d.data(a); err != nil {
		return err
	}
	d.ApprovalFlags.Apply(install.Limits)
	install.Listen, install.RedisURL, install.Slots = d.Listen, d.RedisURL, d.Slots
	install.Workspace, install.Workspaces = d.workspace(), d.Workspaces
	stopProfiles, err := assembly.ServeProfiles(ctx, d.PprofListen, m.Logger)
	if err != nil {
		return usagef("%w", err)
	}
	defer stopProfiles()
	running, err := assembly.StartDev(ctx, install)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("starting: %w: if another coppice dev is running, use a different --listen and a different --data", err)
	case errors.Is(err, assembly.ErrRedisURL):
		return usagef("--redis-url: %w", err)
	case err != nil:
		return fmt.Errorf("starting: %w", err)
	}
	if err := d.greet(a, running.Addr(), install.DataDir, m.secrets.String(chosen.Description)); err != nil {
		return errors.Join(err, running.Stop())
	}
	select {
	case <-ctx.Done():
		if err := running.Stop(); err != nil {
			return fmt.Errorf("stopping: %w", err)
		}
		return nil
	case <-running.Done():
		return errors.Join(errStopped, running.Err())
	}
}

// mayListen refuses an invalid address, or one that may not be served with these tokens.
func (d *devCommand) mayListen(ctx context.Context, security auth.Server) error {
	at, err := listenable(d.Listen)
	if err != nil {
		return err
	}
	if err := security.CheckListen(ctx, at, slog.New(slog.DiscardHandler)); err != nil { // StartDev logs the same warnings later
		return usagef("--listen: %w", err)
	}
	return nil
}

// listenable parses the address of --listen.
func listenable(address string) (net.Addr, error) {
	if address == "" { // or any port of all addresses would do
		return nil, usagef("--listen is empty; it has to be HOST:PORT")
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, usagef("--listen: %w", err)
	}
	return at, nil
}

// workspace returns the directory that all sessions work in; empty if each has its own.
func (d *devCommand) workspace() string {
	if d.Workspaces != "" {
		return ""
	}
	return orCurrentDir(d.Workspace)
}

// data returns the data directory.
func (d *devCommand) data(a *app) (string, error) {
	if d.Data != "" {
		return d.Data, nil
	}
	if state := a.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "coppice"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usagef("no default directory for the data: %w; set one with --data", err)
	}
	return filepath.Join(home, ".local", "state", "coppice"), nil
}

// greet prints where things are, and what to try.
func (d *devCommand) greet(a *app, address, data, model string) error {
	if a.json {
		line, err := json.Marshal(map[string]string{"listen": address, "data": data, "model": model})
		if err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		_, err = fmt.Fprintf(a.Stdout, "%s\n", line)
		return err
	}
	at := ""
	if address != defaultAddress {
		at = " --orchestrator " + address
	}
	with, header := "", ""
	if d.Tokens != "" {
		with, header = ", where COPPICE_TOKEN is a client's token", ` -H "authorization: Bearer $COPPICE_TOKEN"`
	}
	l := a.theme()
	return a.print(
		l.bold.Render("Coppice is serving on "+address),
		"  model  "+safeLine(model),
		"  data   "+safeLine(data),
		"",
		"Try, in another terminal"+with+":",
		"  coppice run --orchestrator "+address+` "Survey this workspace"`,
		"  coppice sessions"+at,
		"  grpcurl -plaintext"+header+` -d '{"message": {"text": "Survey this workspace"}}' `+address+" coppice.v1.SessionService/CreateSession",
		"",
	)
}
