package services

import (
	"os/exec"
	"strconv"
	"syscall"

	"github.com/coppice-run/coppice/bench/system"
)

// Redis is a redis-server with the settings that are built into it.
type Redis struct{ *Server }

// StartRedis runs one that keeps its snapshots in dir.
func StartRedis(dir string) (Redis, error) {
	port, err := system.FreePort()
	if err != nil {
		return Redis{}, err
	}
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir)
	s, err := run(cmd, port, "Ready to accept connections", syscall.SIGKILL)
	return Redis{s}, err
}

// Addr is host:port.
func (r Redis) Addr() string { return addr(r.port) }
