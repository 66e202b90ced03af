//go:build !linux

package store

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: this system has no such option.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
