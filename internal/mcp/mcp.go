// Package mcp makes the tools of MCP servers tools of agents. The servers are the
// operator's choice; what they say is not trusted: it is bounded and made plain, and
// nothing that they do ends a run.
//
// A server belongs to the worker process and is shared by its runs. One goroutine
// keeps it ([Servers.Run]): it connects, lists the tools, lists them anew when the
// server says that they have changed (over HTTP, where that may be lost, also from
// time to time), and connects again when the connection is lost,
// after pauses that grow. The tools that were listed last stay there meanwhile, and a
// call of one of them waits a short time for the server to come back.
//
// The protocol is the SDK's business, whose types stop here. Ours is what surrounds
// it: configuration and its secrets (config.go, read.go, secrets.go), processes
// (process.go) and HTTP (http.go, standing.go), the life of a connection (server.go, link.go), what
// models are told (name.go, offer.go), calls (call.go) and their results (result.go).
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

// Config is the servers of a worker, and what they run with.
type Config struct {
	Servers []Server
	// Sandbox starts those that are commands.
	Sandbox *sandbox.Sandbox
	// Workspace is where they run, absolute.
	Workspace string
	// Apart has those that say no directory run in one of their own instead: what is in
	// the workspace are directories of sessions that must not see each other's.
	Apart  bool
	Logger *slog.Logger

	times times
}

// times says how long things may take. They are there to be shortened by tests.
type times struct {
	connect time.Duration // to start, greet and list
	settle  time.Duration // that a run waits for a server that has never been up
	back    time.Duration // that a call waits for a server that is down
	pause   time.Duration // before the first attempt to connect again
	pauses  time.Duration // the longest pause
	stable  time.Duration // after which pauses begin anew
	probe   time.Duration // that a server has to answer anything, after a call was given up
	close   time.Duration // that a process has to end by itself
	list    time.Duration // after which tools are listed anew over HTTP, whatever was said
}

func (t times) orDefault() times {
	if t != (times{}) {
		return t
	}
	return times{
		connect: 30 * time.Second, settle: 10 * time.Second, back: 5 * time.Second,
		pause: 200 * time.Millisecond, pauses: 30 * time.Second, stable: 10 * time.Second,
		probe: 5 * time.Second, close: 2 * time.Second, list: time.Minute,
	}
}

// backoff gives pauses that grow.
func (t times) backoff() backoff.ExponentialBackOff {
	pauses := backoff.ExponentialBackOff{
		InitialInterval: t.pause, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: t.pauses,
	}
	pauses.Reset()
	return pauses
}

// Servers are the MCP servers of a worker. Nothing is started before Run.
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
			one = one.placed(c.Workspace)
		}
		kept := newServer(one, c.Sandbox, c.Logger.With("mcp_server", one.Name), all.times)
		kept.apart = apart
		all.servers = append(all.servers, kept)
	}
	return all, nil
}

// Run keeps the servers until ctx ends; then it ends them, and waits.
func (s *Servers) Run(ctx context.Context) {
	var keeping sync.WaitGroup
	for _, one := range s.servers {
		keeping.Go(func() { one.keep(ctx) })
	}
	keeping.Wait()
}

// Tools gives the tools that there are now of the servers that may be used, and what
// is missing. Entries, as of [policy.EntryMatches], are what may says yes or no to. Just after
// the start it waits, for a short time, for servers that are still being connected to.
func (s *Servers) Tools(ctx context.Context, may func(entry string) bool) (tools []tool.Tool, missing []tool.Missing) {
	for _, one := range s.servers {
		entry := policy.MCPPrefix + one.Name + "__*"
		if !may(entry) {
			continue
		}
		one.settled(ctx, s.times.settle)
		offers, listed := one.listed()
		if !listed {
			missing = append(missing, tool.Missing{Entry: entry, Why: "the MCP server can't be reached"})
		}
		for _, o := range offers {
			tools = append(tools, remote{server: one, offer: o})
		}
	}
	return tools, missing
}
