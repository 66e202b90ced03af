package store

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-run/coppice/internal/rawconn"
)

// setUserTimeout limits how long sent data may stay unacknowledged.
func setUserTimeout(c syscall.RawConn, after time.Duration) error {
	return rawconn.SetTCPOption(c, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
}
