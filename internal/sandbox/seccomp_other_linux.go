//go:build linux && !amd64 && !arm64

package sandbox

import (
	"errors"
	"runtime"
)

func setFilter(filterOptions) error { return errors.New("there is no filter for " + runtime.GOARCH) }
