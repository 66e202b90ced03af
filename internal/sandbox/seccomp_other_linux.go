//go:build linux && !amd64 && !arm64

package sandbox

import (
	"errors"
	"runtime"
)

func setFilter(bool, uint32) error { return errors.New("there is no filter for " + runtime.GOARCH) }
