package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/coppice-run/coppice/internal/api"
	"github.com/coppice-run/coppice/internal/auth"
	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/mcp"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tree"
)

// DefaultSlots is the default number of slots of a worker.
const DefaultSlots = 16

// Dev configures an orchestrator and a worker in one process.
type Dev struct {
	DataDir        string       // directory of the database
	Listen         string       // host:port on which to serve other processes; empty: none
	Security       auth.Server  // of calls from other processes; its TLS is not used
	RedisURL       string       // empty: an embedded Redis
	Workspace      string       // the directory that all sessions work in
	Workspaces     string       // or: the root of one directory for each session
	Files          Files        // agents, plugins, skills, models
	Slots          int          // 0: DefaultSlots
	Limits         *tree.Limits // nil: the defaults
	Hooks          []hook.Spec  // on the start and stop of sub-agents
	Callbacks      callback.Config
	RetainSessions time.Duration // delete sessions after this time without activity; 0: never
	// DefinitionHooks enables the hooks in agents' definitions.
	DefinitionHooks bool
	FetchAllow      []string         // as in Worker
	MCP             []mcp.Server     // as in Worker
	Secrets         *redact.Redactor // never stored or shown; nil: none are known
	BashNetwork     bool             // as in Worker
	Sandbox         sandbox.Options
	Model           model.Model
	Limiter         *ratelimit.Limiter   // of the model; nil: none
	Telemetry       *telemetry.Telemetry // nil: none
	Logger          *slog.Logger
}

// Files locates the files that define agents, skills, models and prices.
type Files struct {
	Agents  []string // directories of definitions; later ones take precedence
	Plugins string   // directory of plugins; empty: none
	Skills  []string // directories of skills; earlier ones take precedence
	Models  string   // file of model names; empty: built in
	Prices  string   // file of model prices; empty: built in
}

// Running is a started Dev.
type Running struct {
	conn    *grpc.ClientConn
	db      *store.Store
	address string
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
}

// pipeBufferBytes is the buffer size of the in-process connection.
const pipeBufferBytes = 64 << 10

// StartDev starts everything and returns when calls are served.
func StartDev(ctx context.Context, d Dev) (*Running, error) {
	if err := os.MkdirAll(d.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	client, closeRedis, err := d.redis()
	if err != nil {
		return nil, err
	}
	inside, err := d.inProcessAuth()
	if err != nil {
		return nil, errors.Join(err, closeRedis())
	}
	pipe := bufconn.Listen(pipeBufferBytes)
	r := &Running{done: make(chan struct{})}
	listeners := []net.Listener{pipe}
	if d.Listen != "" {
		l, err := net.Listen("tcp", d.Listen)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listening: %w", err), closeRedis())
		}
		listeners, r.address = append(listeners, l), l.Addr().String()
	}
	r.conn, err = Connect("passthrough:///in-process", append(inside, grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) },
	))...)
	if err != nil {
		return nil, errors.Join(err, closeRedis())
	}
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan struct{})
	go func() {
		defer close(r.done)
		err := d.run(ctx, listeners, client, r, func() { close(served) })
		r.err = errors.Join(err, r.conn.Close(), closeRedis())
	}()
	select {
	case <-served:
		return r, nil
	case <-r.done:
		return nil, r.err
	}
}

// inProcessAuth returns the token of the in-process connection, if calls need one.
func (d Dev) inProcessAuth() ([]grpc.DialOption, error) {
	if d.Security.Tokens == nil {
		return nil, nil
	}
	token, err := d.Security.Tokens.Issue(auth.Identity{Name: "this process", Tenant: auth.DefaultTenant, Role: auth.RoleAdmin})
	if err != nil {
		return nil, err
	}
	return []grpc.DialOption{auth.WithToken(token)}, nil
}

func (d Dev) redis() (*redis.Client, func() error, error) {
	if d.RedisURL != "" {
		client, err := OpenRedis(d.RedisURL)
		if err != nil {
			return nil, nil, err
		}
		return client, client.Close, nil
	}
	embedded, err := dispatch.OpenEmbedded()
	if err != nil {
		return nil, nil, err
	}
	return embedded.Client(), embedded.Close, nil
}

// Orchestrator returns the configuration of the orchestrator, on the given Redis.
func (d Dev) Orchestrator(client *redis.Client, listeners ...net.Listener) Orchestrator {
	limits := tree.DefaultLimits()
	if d.Limits != nil {
		limits = *d.Limits
	}
	return Orchestrator{
		Database: filepath.Join(d.DataDir, "coppice.db"), Redis: client, Pool: DefaultPool,
		Limits: limits, Callbacks: d.Callbacks, Listeners: listeners, RetainSessions: d.RetainSessions, Secrets: d.Secrets,
		Security:   auth.Server{Tokens: d.Security.Tokens, Insecure: d.Security.Insecure},
		AgentsDirs: d.Files.Agents, PluginsDir: d.Files.Plugins, Models: d.Files.Models, Prices: d.Files.Prices,
		Telemetry: d.Telemetry, Logger: d.Logger,
	}
}

// Worker returns the configuration of the worker.
func (d Dev) Worker(client *redis.Client, orchestrator grpc.ClientConnInterface) Worker {
	return Worker{
		Orchestrator: orchestrator, Redis: client, Pool: DefaultPool, Slots: cmp.Or(d.Slots, DefaultSlots),
		Workspace: d.Workspace, Workspaces: d.Workspaces, SkillsDirs: d.Files.Skills, PluginsDir: d.Files.Plugins,
		Model: d.Model, Limiter: d.Limiter, Hooks: d.Hooks, DefinitionHooks: d.DefinitionHooks,
		FetchAllow: d.FetchAllow, BashNetwork: d.BashNetwork, MCP: d.MCP, Sandbox: d.Sandbox,
		Secrets: d.Secrets, Telemetry: d.Telemetry, Logger: d.Logger,
	}
}

// run runs both parts. The worker asks for runs once the orchestrator serves. The worker stops
// first, so that the orchestrator still receives its last requests.
func (d Dev) run(ctx context.Context, listeners []net.Listener, client *redis.Client, r *Running, ready func()) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var g errgroup.Group
	working, stopWorking := context.WithCancel(ctx)
	served, inside := make(chan struct{}), api.NewInProcess()
	g.Go(func() error {
		defer stopWorking()
		o := d.Orchestrator(client, listeners...)
		o.InProcess = inside
		o.OnOpen = func(db *store.Store) { r.db = db }
		return o.Run(serving, func() {
			close(served)
			ready()
		})
	})
	g.Go(func() error {
		defer stopServing()
		w := d.Worker(client, inside)
		w.OnReady = func() {
			select {
			case <-served:
			case <-working.Done():
			}
		}
		err := w.Run(working)
		if err == nil && working.Err() == nil {
			d.Logger.WarnContext(ctx, "the worker in this process has drained: runs wait until the process is started again, or another worker connects")
			<-working.Done()
		}
		return err
	})
	return g.Wait()
}

// Conn returns the in-process client connection.
func (r *Running) Conn() *grpc.ClientConn { return r.conn }

// PendingCallbacks returns the callbacks of a session that have not ended.
func (r *Running) PendingCallbacks(ctx context.Context, session string) ([]tree.Callback, error) {
	id, err := tree.ParseID[tree.Session](session)
	if err != nil {
		return nil, err
	}
	return r.db.CallbacksOf(ctx, id)
}

// Addr returns the address on which it listens; empty if it does not.
func (r *Running) Addr() string { return r.address }

// Done is closed when everything has stopped, for whatever reason.
func (r *Running) Done() <-chan struct{} { return r.done }

// Err returns why it stopped. Call it after Done is closed.
func (r *Running) Err() error { return r.err }

// Stop stops everything and waits.
func (r *Running) Stop() error {
	r.cancel()
	<-r.done
	return r.err
}
