//go:build chaos

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/chaos"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/redistest"
)

// plan says how large an installation is.
type plan struct {
	postgres      bool // otherwise SQLite, and one orchestrator
	orchestrators int
	workers       int
	slots         int
}

// cluster is an installation of processes with a link in each connection.
type cluster struct {
	t             *testing.T
	dir           string
	redis         *redistest.Server
	direct        *redis.Client  // past all links
	postgres      *pgtest.Server // nil: SQLite
	orchestrators []*node
	workers       []*node
	toClients     []*chaos.Link // one for each orchestrator
	client        *grpc.ClientConn
	reader        *grpc.ClientConn // past all links; its calls wait for a replica that is just coming back
	log           *chaos.Log
	opened        []io.Closer // of the three before, those that there are

	sightings *sightings // of all clients

	mu        sync.Mutex
	surprises []string
	taken     map[*chaos.Link]bool // by a fault that changes their weather
}

// build makes the binaries once for all campaigns of the process.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for program, source := range map[string]string{"orchestrator": "../../cmd/orchestrator", "worker": "./worker"} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(dir, program), source).CombinedOutput()
		if err != nil {
			t.Fatalf("building %s: %v: %s", program, err, out)
		}
	}
	return dir
}

// raise starts an installation. It is stopped, and its traces removed unless the
// test has failed, when the test ends.
func raise(t *testing.T, bin string, p plan) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "coppice-chaos-") //nolint:usetesting // it is kept if the test fails
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir, redis: redistest.Start(t), taken: map[*chaos.Link]bool{}, sightings: newSightings()}
	c.direct = c.redis.Client()
	t.Cleanup(c.fall)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c.log, err = chaos.OpenLog(filepath.Join(dir, "clients.log"))
	must(err)
	c.opened = append(c.opened, c.log)
	listens := c.raiseOrchestrators(filepath.Join(bin, "orchestrator"), p)
	for i := range p.workers {
		links := []*chaos.Link{c.link(c.redis.Addr())}
		var to []string
		for _, addr := range listens {
			l := c.link(addr)
			links, to = append(links, l), append(to, l.Addr())
		}
		name := fmt.Sprintf("worker-%d", i+1)
		c.workers = append(c.workers, c.node(name, filepath.Join(bin, "worker"), links,
			"--orchestrators", strings.Join(to, ","), "--redis-url", "redis://"+links[0].Addr(), "--slots", strconv.Itoa(p.slots),
			"--workspaces", dir, "--hooks", "testdata/hooks.yaml", "--scenario", "testdata/scenario.yaml", "--log", filepath.Join(dir, name+".log"), "--name", name))
	}
	var links []string
	for _, l := range c.toClients {
		links = append(links, l.Addr())
	}
	c.client, err = connect(links)
	must(err)
	c.opened = append(c.opened, c.client)
	c.reader, err = connect(listens, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	must(err)
	c.opened = append(c.opened, c.reader)
	for _, n := range c.nodes() {
		must(n.start())
	}
	return c
}

// raiseOrchestrators makes the orchestrators, all on one database, and gives the
// addresses that they listen on.
func (c *cluster) raiseOrchestrators(program string, p plan) (listens []string) {
	database := filepath.Join(c.dir, "coppice.db")
	if p.postgres {
		c.postgres = pgtest.Start(c.t)
		database = c.postgres.Database(c.t)
	}
	limits := caps()
	for i := range p.orchestrators {
		addr, own := proctest.FreeAddress(c.t), database
		links := []*chaos.Link{c.link(c.redis.Addr())}
		if p.postgres {
			links = append(links, c.link(c.postgres.Addr()))
			own = strings.Replace(database, c.postgres.Addr(), links[1].Addr(), 1)
		}
		c.orchestrators = append(c.orchestrators, c.node(fmt.Sprintf("orchestrator-%d", i+1), program, links,
			"--listen", addr, "--database", own, "--redis-url", "redis://"+links[0].Addr(),
			"--agents-dir", "testdata/agents", "--max-width", strconv.Itoa(limits.Width), "--max-running", strconv.Itoa(limits.Running)))
		c.toClients = append(c.toClients, c.link(addr))
		listens = append(listens, addr)
	}
	return listens
}

// connect makes a connection that spreads its calls over addresses.
func connect(addresses []string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	replicas := manual.NewBuilderWithScheme("replicas")
	state := resolver.State{}
	for _, addr := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
	}
	replicas.InitialState(state)
	return assembly.Connect("replicas:///", append(more, grpc.WithResolvers(replicas))...)
}

func (c *cluster) nodes() []*node { return append(append([]*node{}, c.orchestrators...), c.workers...) }

func (c *cluster) link(target string) *chaos.Link {
	c.t.Helper()
	l, err := chaos.OpenLink(c.t.Context(), target)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			c.t.Error(err)
		}
	})
	return l
}

func (c *cluster) node(name, program string, links []*chaos.Link, args ...string) *node {
	return &node{
		name: name, program: program, args: args, links: links, died: c.surprise,
		errors: filepath.Join(c.dir, name+".err"), killed: map[int]time.Time{},
	}
}

// take makes a link one fault's own; it reports false if it is another's.
func (c *cluster) take(l *chaos.Link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken[l] {
		return false
	}
	c.taken[l] = true
	return true
}

func (c *cluster) give(l *chaos.Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.taken, l)
}

// surprise keeps what should not have happened.
func (c *cluster) surprise(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.surprises = append(c.surprises, what)
}

// fall ends everything.
func (c *cluster) fall() {
	for _, n := range c.nodes() {
		if n.hasEnded() == nil {
			continue
		}
		if err := n.kill(); err != nil {
			c.t.Error(err)
		}
	}
	for _, o := range c.opened {
		if err := o.Close(); err != nil {
			c.t.Error(err)
		}
	}
	if c.t.Failed() {
		c.t.Logf("records, logs and database are in %s", c.dir)
		return
	}
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Error(err)
	}
}

// crowd gives clients of the installation.
func (c *cluster) crowd(name string, counts *counts) *crowd {
	clients := newCrowd(c.client, c.log, name, counts)
	clients.sightings = c.sightings
	return clients
}

// rest stops all workers, so that nothing happens any more, and waits until all
// orchestrators have stood up again.
func (c *cluster) rest(ctx context.Context) error {
	for _, n := range c.workers {
		n.held.Lock()
		err := n.kill()
		n.held.Unlock()
		if err != nil {
			return err
		}
	}
	return c.served(ctx)
}

// served waits until each orchestrator takes calls.
func (c *cluster) served(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for i, l := range c.toClients {
		conn, err := assembly.Connect("passthrough:///" + l.Addr())
		if err != nil {
			return err
		}
		err = awaitHealthy(ctx, conn)
		if err := errors.Join(err, conn.Close()); err != nil {
			said, unread := os.ReadFile(c.orchestrators[i].errors)
			return fmt.Errorf("%s does not serve: %w: %s", c.orchestrators[i].name, errors.Join(err, unread), lastWords(said))
		}
	}
	return nil
}

// killedAt says when the process that a worker's id names was ended from outside.
func (c *cluster) killedAt(worker string) (time.Time, bool) {
	for _, n := range c.workers {
		n.mu.Lock()
		for pid, at := range n.killed {
			if isOf(worker, pid) {
				n.mu.Unlock()
				return at, true
			}
		}
		n.mu.Unlock()
	}
	return time.Time{}, false
}
