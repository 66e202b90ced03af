package installation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server with the settings of Debian's package, but for where it
// listens and writes.
type Redis struct {
	*Process
	address string
}

// StartRedis runs a server that writes to a new directory.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a directory for Redis: %w", err)
	}
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// "save" is what the package's file leaves out because it is the default.
	p, err := start("redis", "redis-server", []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "3600 1 300 100 60 10000"}, dir, nil)
	if err != nil {
		return nil, err
	}
	r := &Redis{p, address}
	client := r.Client()
	defer client.Close() //nolint:errcheck // it was only asked
	err = await(ctx, p, func(ctx context.Context) error { return client.Ping(ctx).Err() })
	if err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return r, nil
}

// URL is what a program is given to find the server.
func (r *Redis) URL() string { return redisURL(r.address) }

func redisURL(address string) string { return "redis://" + address }

// Address is where it listens.
func (r *Redis) Address() string { return r.address }

// Client is a client of its own; close it.
func (r *Redis) Client() *redis.Client { return redis.NewClient(&redis.Options{Addr: r.address}) }

// Postgres is a PostgreSQL server with the settings that initdb writes, but for where
// it listens.
type Postgres struct {
	*Process
	address string
}

// StartPostgres makes a new cluster in a new directory and serves it, with further
// settings ("name=value") if there are any.
func StartPostgres(ctx context.Context, dir string, settings ...string) (*Postgres, error) {
	as, err := owner()
	if err != nil {
		return nil, err
	}
	if err := ownDirectory(dir, as); err != nil {
		return nil, err
	}
	binaries, err := binaries()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"), "--pgdata", data, "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("making a database: %w\n%s", err, out)
	}
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	args := []string{"-D", data, "-p", port}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories="}, settings...) {
		args = append(args, "-c", setting)
	}
	p, err := start("postgres", filepath.Join(binaries, "postgres"), args, dir, as)
	if err != nil {
		return nil, err
	}
	s := &Postgres{p, address}
	err = await(ctx, p, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return s, nil
}

// URL names a database; "postgres" is always there.
func (s *Postgres) URL(database string) string { return databaseURL(s.address, database) }

func databaseURL(address, database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", address, database)
}

// Stop ends the server without waiting for its clients.
func (s *Postgres) Stop() error { return s.end(syscall.SIGINT) }

// ownDirectory makes a directory that belongs to whom the server runs as, and lets
// him look into those above it.
func ownDirectory(dir string, as *syscall.Credential) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a directory for PostgreSQL: %w", err)
	}
	if as == nil {
		return nil
	}
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { //nolint:gosec // it is that of a measurement
		return fmt.Errorf("opening a directory to PostgreSQL: %w", err)
	}
	if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
		return fmt.Errorf("giving a directory to PostgreSQL: %w", err)
	}
	return nil
}

// binaries finds where PostgreSQL's programs are: in PATH, or where Debian has them.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err == nil && len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
	}
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("looking for PostgreSQL, which the measurements need: %w", err)
	}
	return filepath.Dir(initdb), nil
}

// version is the number in the path of a binary; 0 if there is none.
func version(binary string) int {
	n, err := strconv.Atoi(strings.Split(binary, string(filepath.Separator))[4])
	if err != nil {
		return 0
	}
	return n
}

// owner is who the server runs as, since it refuses to run as root; nil: whoever
// runs this.
func owner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("looking for a user for PostgreSQL, which refuses to run as root: %w", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("reading the ids of %s: %w", u.Username, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
