package services

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/coppice-run/coppice/bench/system"
)

// Postgres is a PostgreSQL server with the settings of its package: what is
// committed has been synced.
type Postgres struct {
	*Server

	dir string
}

// Cluster is an empty database directory, to be copied for each server.
type Cluster struct {
	binaries string
	dir      string
	as       *syscall.Credential // nil: whoever runs this
}

// NewCluster makes a database directory. It is removed by Remove.
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

// PostgresVersion is the command that tells which PostgreSQL it is.
func PostgresVersion() []string {
	dir, err := binaries()
	if err != nil {
		dir = ""
	}
	return []string{filepath.Join(dir, "postgres"), "--version"}
}

// Remove removes the directory.
func (c *Cluster) Remove() error { return os.RemoveAll(c.dir) }

// Start runs a server on a copy of the cluster.
func (c *Cluster) Start() (Postgres, error) {
	dir, err := c.directory()
	if err != nil {
		return Postgres{}, err
	}
	data := filepath.Join(dir, "data")
	if out, err := c.command("cp", "-a", filepath.Join(c.dir, "data"), data).CombinedOutput(); err != nil {
		return Postgres{}, errors.Join(fmt.Errorf("copying a database: %w\n%s", err, out), os.RemoveAll(dir))
	}
	port, err := system.FreePort()
	if err != nil {
		return Postgres{}, errors.Join(err, os.RemoveAll(dir))
	}
	cmd := c.command("postgres", "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "logging_collector=off", "-c", "log_destination=stderr")
	s, err := run(cmd, port, "ready to accept connections", syscall.SIGQUIT)
	if err != nil {
		return Postgres{}, errors.Join(err, os.RemoveAll(dir))
	}
	return Postgres{s, dir}, nil
}

// URL names the one database there is.
func (p Postgres) URL() string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", addr(p.port))
}

// Stop ends the server and removes its data.
func (p Postgres) Stop() error {
	return errors.Join(p.Server.Stop(), os.RemoveAll(p.dir))
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

// binaries finds where PostgreSQL's programs are.
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

// version is the number in the path of a directory of programs, 0 if there is none.
func version(dir string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return 0
	}
	return n
}

// owner is who the server runs as, since it refuses to run as root.
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
