// Package installation runs Coppice for measurements as in production: as processes on this
// machine, with the default durability of the database and of Redis. Only the model is
// replaced. It answers at once what the prompt asks for (see scenario.yaml), so that only
// Coppice is measured.
package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coppice-run/coppice/bench/process"
	"github.com/coppice-run/coppice/bench/services"
	"github.com/coppice-run/coppice/bench/system"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Kind is how an installation is deployed.
type Kind string

// The kinds of installations.
const (
	// Embedded is `coppice dev`: SQLite, miniredis, orchestrator and worker in one process.
	Embedded Kind = "embedded"
	// Separate is PostgreSQL, Redis, an orchestrator and workers, each in its own process.
	Separate Kind = "separate"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Embedded, Separate} }

// Options configure an installation.
type Options struct {
	Kind     Kind
	Binaries *Binaries
	Workers  int // of a separate installation; an embedded one has one
	Slots    int // per worker
	// Database is the URL of an empty database, and Wire the host:port of a Redis, that exist
	// already. They are for a separate installation; if they are empty, it starts its own.
	Database, Wire string
	// Profile makes the processes serve profiles, for Heap.
	Profile bool
	// Statements enables pg_stat_statements in PostgreSQL, which has a small cost.
	Statements bool
	// NoLivenessPort makes workers not open the port at which orchestrators probe whether they
	// are alive.
	NoLivenessPort bool
	// Metered puts a meter into each connection of a separate installation. That takes time, so
	// do not measure durations with it.
	Metered bool
}

// Installation is a running installation.
type Installation struct {
	Options
	Dir      string // directory of all its files
	Postgres *services.Postgres
	Redis    *services.Redis

	address      string
	orchestrator *process.Process // the only process of an embedded installation
	workers      []*process.Process
	started      int // number of workers ever started
	conn         *grpc.ClientConn
	profiles     map[string]string // URL of each process's profiles, by name
	// Meters of a metered installation: from the orchestrator to database and Redis, and from
	// the workers to Redis and orchestrator.
	ToDatabase, ToRedis, WorkersToRedis, WorkersToOrchestrator *Meter
}

// Number and size of the workspace files for the prompts "source N" and "noise N".
const (
	files     = 101
	fileBytes = 5 << 10
)

// maxAnswer bounds a response, because a tree of 10,000 tasks is large.
const maxAnswer = 256 << 20

// Start starts an installation. Call Stop to end it.
func Start(ctx context.Context, o Options) (_ *Installation, err error) {
	dir, err := os.MkdirTemp("", "coppice-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	i := &Installation{Options: o, Dir: dir, profiles: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Stop())
		}
	}()
	if err := i.writeAssets(); err != nil {
		return nil, err
	}
	if i.address, err = system.FreeAddress(); err != nil {
		return nil, err
	}
	if err := i.startServers(ctx); err != nil {
		return nil, err
	}
	if err := i.connect(ctx); err != nil {
		return nil, err
	}
	for range o.Workers {
		if o.Kind == Embedded {
			break
		}
		if _, err := i.StartWorker(ctx); err != nil {
			return nil, err
		}
	}
	return i, nil
}

func (i *Installation) startServers(ctx context.Context) (err error) {
	if i.Kind == Embedded {
		args := append([]string{
			"dev", "--listen", i.address, "--data", filepath.Join(i.Dir, "data"),
			"--slots", fmt.Sprint(i.Slots), "--agents-dir", filepath.Join(i.Dir, "agents"),
		}, i.workerFlags()...)
		i.orchestrator, err = i.run("coppice", i.Binaries.Coppice, args)
		return err
	}
	var settings []string
	if i.Statements {
		settings = append(settings, "shared_preload_libraries=pg_stat_statements")
	}
	if i.Database == "" {
		if i.Postgres, err = services.StartPostgres(ctx, settings...); err != nil {
			return err
		}
	}
	if i.Wire == "" {
		if i.Redis, err = services.StartRedis(ctx, i.Dir); err != nil {
			return err
		}
	}
	if i.Metered {
		if err := i.addMeters(); err != nil {
			return err
		}
	}
	return i.StartOrchestrator()
}

func (i *Installation) addMeters() error {
	for _, m := range []struct {
		meter  **Meter
		server string
	}{
		{&i.ToDatabase, i.Postgres.Address}, {&i.ToRedis, i.Redis.Address},
		{&i.WorkersToRedis, i.Redis.Address}, {&i.WorkersToOrchestrator, i.address},
	} {
		var err error
		if *m.meter, err = NewMeter(m.server); err != nil {
			return fmt.Errorf("putting a meter before %s: %w", m.server, err)
		}
	}
	return nil
}

// meteredAddress returns the address of the meter, if there is one, otherwise that of the
// server.
func meteredAddress(m *Meter, server string) string {
	if m == nil {
		return server
	}
	return m.Address()
}

// database returns the database URL for the orchestrator.
func (i *Installation) database() string {
	if i.Database != "" {
		return i.Database
	}
	return i.Postgres.URLAt(meteredAddress(i.ToDatabase, i.Postgres.Address))
}

// wire returns the address of Redis.
func (i *Installation) wire() string {
	if i.Wire != "" {
		return i.Wire
	}
	return i.Redis.Address
}

// StartOrchestrator starts the orchestrator of a separate installation, also again after a
// Kill.
func (i *Installation) StartOrchestrator() (err error) {
	args := []string{
		"--listen", i.address, "--database", i.database(),
		"--redis-url", "redis://" + meteredAddress(i.ToRedis, i.wire()),
		"--agents-dir", filepath.Join(i.Dir, "agents"),
		"--max-depth", "200", "--max-width", "20000", "--max-total", "1000000", "--max-running", "100000", "--max-queue", "0",
	}
	i.orchestrator, err = i.run("orchestrator", i.Binaries.Orchestrator, args)
	return err
}

// workerFlags returns the flags of each process that contains a worker. No agent here runs
// commands, so the sandbox is off.
func (i *Installation) workerFlags() []string {
	return []string{
		"--scenario", filepath.Join(i.Dir, "scenario.yaml"),
		"--workspace", i.workspace(), "--sandbox", "off",
	}
}

// StartWorker adds a worker to a separate installation.
func (i *Installation) StartWorker(_ context.Context) (*process.Process, error) {
	i.started++
	args := append([]string{
		"--orchestrator", meteredAddress(i.WorkersToOrchestrator, i.address),
		"--redis-url", "redis://" + meteredAddress(i.WorkersToRedis, i.wire()), "--slots", fmt.Sprint(i.Slots),
	}, i.workerFlags()...)
	if i.NoLivenessPort {
		args = append(args, "--alive-listen", "")
	}
	p, err := i.run(fmt.Sprint("worker-", i.started), i.Binaries.Worker, args)
	if err != nil {
		return nil, err
	}
	i.workers = append(i.workers, p)
	return p, nil
}

// run starts one of our programs. Its log goes to a file.
func (i *Installation) run(name, program string, args []string) (*process.Process, error) {
	if i.Profile {
		address, err := system.FreeAddress()
		if err != nil {
			return nil, err
		}
		i.profiles[name] = address
		args = append(args, "--pprof-listen", address)
	}
	return process.Start(name, program, args, i.Dir, nil)
}

// connect waits until the orchestrator responds.
func (i *Installation) connect(ctx context.Context) (err error) {
	i.conn, err = grpc.NewClient(i.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return fmt.Errorf("connecting to Coppice: %w", err)
	}
	return i.orchestrator.Await(ctx, func(ctx context.Context) error {
		if err := process.Listens(ctx, i.address); err != nil {
			return err
		}
		i.conn.ResetConnectBackoff()
		_, err := i.Sessions().ListSessions(ctx, &pb.ListSessionsRequest{PageSize: 1}, grpc.WaitForReady(true))
		return err
	})
}

// Address returns the address of the API.
func (i *Installation) Address() string { return i.address }

// Sessions returns a client.
func (i *Installation) Sessions() pb.SessionServiceClient { return pb.NewSessionServiceClient(i.conn) }

// Tasks returns a client.
func (i *Installation) Tasks() pb.TaskServiceClient { return pb.NewTaskServiceClient(i.conn) }

// Approvals returns a client.
func (i *Installation) Approvals() pb.ApprovalServiceClient {
	return pb.NewApprovalServiceClient(i.conn)
}

// Admin returns a client.
func (i *Installation) Admin() pb.AdminServiceClient { return pb.NewAdminServiceClient(i.conn) }

// Orchestrator returns the process of the orchestrator. An embedded installation has only this
// one.
func (i *Installation) Orchestrator() *process.Process { return i.orchestrator }

// Workers returns the running worker processes.
func (i *Installation) Workers() []*process.Process { return living(i.workers) }

// Processes returns all running processes, including databases.
func (i *Installation) Processes() []*process.Process {
	all := append([]*process.Process{i.orchestrator}, i.workers...)
	if i.Redis != nil {
		all = append(all, i.Redis.Process)
	}
	if i.Postgres != nil {
		all = append(all, i.Postgres.Process)
	}
	return living(all)
}

func living(of []*process.Process) []*process.Process {
	var left []*process.Process
	for _, p := range of {
		if p != nil && !p.Ended() {
			left = append(left, p)
		}
	}
	return left
}

// Stop stops all processes and removes their files. It fails if one of our processes has ended
// unexpectedly or reports an error.
func (i *Installation) Stop() error {
	var errs []error
	if i.conn != nil {
		errs = append(errs, i.conn.Close())
	}
	for _, p := range append(i.workers, i.orchestrator) {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	if i.Redis != nil {
		errs = append(errs, i.Redis.Stop())
	}
	if i.Postgres != nil {
		errs = append(errs, i.Postgres.Stop())
	}
	for _, m := range []*Meter{i.ToDatabase, i.ToRedis, i.WorkersToRedis, i.WorkersToOrchestrator} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(i.Dir))...)
}
