//go:build !linux

package store

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: here the system does not say how long to go on sending.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
