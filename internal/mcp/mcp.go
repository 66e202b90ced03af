// Package mcp offers the tools of MCP servers to agents. The operator chooses the servers, but
// their content is not trusted: it is bounded and cleaned, and no failure of a server ends a
// run.
//
// A server belongs to the worker process, and all runs share it. One goroutine ([Servers.Run])
// manages it. The goroutine connects and lists the tools. It lists them again when the server
// says that they have changed. Over HTTP, where that message may be lost, it also does so
// periodically. When the connection is lost it reconnects, with growing pauses. Meanwhile the
// tools of the last list remain available, and their calls wait a short time for the server.
//
// The SDK implements the protocol; its types do not leave this package. The files here contain
// the rest: configuration and secrets (config.go, read.go, secrets.go), processes (process.go,
// outputlog.go), HTTP (http.go, listen.go), replies to servers (replies.go), the life of a
// connection (server.go, link.go), the descriptions of tools (name.go, tools.go), calls (call.go)
// and results (result.go).
package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
)

// Config has the servers of a worker and their environment.
type Config struct {
	Servers []Server
	// Sandbox starts servers that are commands.
	Sandbox *sandbox.Sandbox
	// Workspace is their default working directory, absolute.
	Workspace string
	// Apart gives servers without a configured directory one of their own instead. It is for
	// workspaces with the directories of several sessions, which must not see each other.
	Apart  bool
	Logger *slog.Logger

	times times
}

// times are timeouts and intervals. Tests shorten them.
type times struct {
	connect time.Duration // to start, initialise and list
	settle  time.Duration // how long a run waits for a server that was never up
	back    time.Duration // how long a call waits for a server that is down
	pause   time.Duration // before the first reconnect
	pauses  time.Duration // the longest pause
	stable  time.Duration // after which the pauses start anew
	probe   time.Duration // for any response, after a call timed out
	write   time.Duration // for a message to be read by a process, and for a reply by HTTP
	close   time.Duration // for a process to end
	list    time.Duration // interval of listing the tools over HTTP
}

func (t times) orDefault() times {
	if t != (times{}) {
		return t
	}
	return times{
		connect: 30 * time.Second, settle: 10 * time.Second, back: 5 * time.Second,
		pause: 200 * time.Millisecond, pauses: 30 * time.Second, stable: 10 * time.Second,
		probe: 5 * time.Second, write: 10 * time.Second, close: 2 * time.Second, list: time.Minute,
	}
}

// backoff returns the growing pauses.
func (t times) backoff() backoff.ExponentialBackOff {
	pauses := backoff.ExponentialBackOff{
		InitialInterval: t.pause, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: t.pauses,
	}
	pauses.Reset()
	return pauses
}

// Servers are the MCP servers of a worker. Run starts them.
type Servers struct {
	servers []*server
	times   times
}

// New checks the configuration.
func New(c Config) (*Servers, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	all := &Servers{times: c.times.orDefault()}
	for i := range c.Servers {
		one := c.Servers[i]
		same := func(s *server) bool { return s.Name == one.Name }
		switch {
		case slices.ContainsFunc(all.servers, same):
			return nil, fmt.Errorf("two MCP servers are named %s", one.Name)
		case one.Command != "" && (c.Sandbox == nil || !filepath.IsAbs(c.Workspace)):
			return nil, errors.New("MCP servers that are commands need a sandbox and a workspace")
		}
		if one.Timeout == 0 {
			one.Timeout = DefaultTimeout
		}
		apart := c.Apart && one.Dir == ""
		if one.Command != "" {
			one = one.withRealPaths(c.Workspace)
		}
		kept := newServer(one, c.Sandbox, c.Logger.With("mcp_server", one.Name), all.times)
		kept.separateDir = apart
		all.servers = append(all.servers, kept)
	}
	return all, nil
}

// Run manages the servers until ctx ends. Then it stops them and waits.
func (s *Servers) Run(ctx context.Context) {
	var keeping sync.WaitGroup
	for _, one := range s.servers {
		keeping.Go(func() { one.run(ctx) })
	}
	keeping.Wait()
}

// Tools returns the currently available tools of the allowed servers, and what is missing. may
// decides about entries as in [policy.EntryMatches]. Shortly after the start, Tools waits a short time
// for servers that are still connecting.
func (s *Servers) Tools(ctx context.Context, may func(entry string) bool) (tools []tool.Tool, missing []tool.Missing) {
	for _, one := range s.servers {
		entry := policy.MCPPrefix + one.Name + "__*"
		if !may(entry) {
			continue
		}
		one.waitSettled(ctx, s.times.settle)
		offers, listed := one.lastTools()
		if !listed {
			missing = append(missing, tool.Missing{Entry: entry, Why: "the MCP server can't be reached"})
		}
		for _, o := range offers {
			tools = append(tools, remote{server: one, listed: o})
		}
	}
	return tools, missing
}
