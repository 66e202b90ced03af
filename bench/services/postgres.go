// Package services runs the databases of the measured systems: private servers on free ports,
// each with the settings of its package, in a temporary directory.
package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/coppice-run/coppice/bench/process"
	"github.com/coppice-run/coppice/bench/system"
)

// Postgres is a PostgreSQL server with the settings of its package: commits are synced to disk.
type Postgres struct {
	*process.Process

	Address string // host:port
	dir     string
}

// Cluster is an empty database directory, which is copied for each server.
type Cluster struct {
	binaries string
	dir      string
	as       *syscall.Credential // nil: the current user
}

// NewCluster creates a database directory. Remove deletes it.
func NewCluster() (*Cluster, error) {
	binaries, err := binaries()
	if err != nil {
		return nil, err
	}
	as, err := owner()
	if err != nil {
		return nil, err
	}
	c := &Cluster{binaries: binaries, as: as}
	if c.dir, err = c.directory(); err != nil {
		return nil, err
	}
	out, err := c.command("initdb", "--pgdata", filepath.Join(c.dir, "data"), "--auth=trust", "--username=postgres",
		"--encoding=UTF8", "--no-locale").CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a database: %w\n%s", err, out), c.Remove())
	}
	return c, nil
}

// PostgresVersion returns the command that prints the version of PostgreSQL.
func PostgresVersion() []string {
	dir, err := binaries()
	if err != nil {
		dir = ""
	}
	return []string{filepath.Join(dir, "postgres"), "--version"}
}

// Remove deletes the directory.
func (c *Cluster) Remove() error { return os.RemoveAll(c.dir) }

// StartPostgres starts a server on its own cluster.
func StartPostgres(ctx context.Context, settings ...string) (*Postgres, error) {
	c, err := NewCluster()
	if err != nil {
		return nil, err
	}
	p, err := c.Start(ctx, settings...)
	return p, errors.Join(err, c.Remove())
}

// Start starts a server on a copy of the cluster, with optional settings ("name=value").
func (c *Cluster) Start(ctx context.Context, settings ...string) (*Postgres, error) {
	dir, err := c.directory()
	if err != nil {
		return nil, err
	}
	p, err := c.serve(ctx, dir, settings)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// serve starts a server in a directory, which is deleted when the server stops.
func (c *Cluster) serve(ctx context.Context, dir string, settings []string) (*Postgres, error) {
	data := filepath.Join(dir, "data")
	if out, err := c.command("cp", "-a", filepath.Join(c.dir, "data"), data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copying a database: %w\n%s", err, out)
	}
	port, err := system.FreePort()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories="}, settings...) {
		args = append(args, "-c", setting)
	}
	s, err := process.Start("postgres", filepath.Join(c.binaries, "postgres"), args, dir, c.as)
	if err != nil {
		return nil, err
	}
	p := &Postgres{s, system.Address(port), dir}
	err = s.Await(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.URL())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, s.Kill())
	}
	return p, nil
}

// URL returns the URL of the only database.
func (p *Postgres) URL() string { return p.URLAt(p.Address) }

// URLAt returns the URL with another address, for a proxy.
func (p *Postgres) URLAt(address string) string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", address)
}

// Stop stops the server at once and deletes its data.
func (p *Postgres) Stop() error {
	return errors.Join(p.End(syscall.SIGQUIT), os.RemoveAll(p.dir))
}

func (c *Cluster) directory() (string, error) {
	dir, err := os.MkdirTemp("", "bench-postgres")
	if err != nil || c.as == nil {
		return dir, err
	}
	return dir, os.Chown(dir, int(c.as.Uid), int(c.as.Gid))
}

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	if name != "cp" {
		name = filepath.Join(c.binaries, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	return cmd
}

// binaries returns the directory of PostgreSQL's programs.
func binaries() (string, error) {
	if found, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(found), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is neither in PATH nor in /usr/lib/postgresql")
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

// version returns the version in the path of a directory of programs, or 0.
func version(dir string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return 0
	}
	return n
}

// owner returns the user of the server, which refuses to run as root.
func owner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses to run as root: %w", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("looking up whom PostgreSQL runs as: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
