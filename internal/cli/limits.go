package cli

import (
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// runLimitFlags bound the model calls and the time of runs in this process.
type runLimitFlags struct {
	MaxIterations    *int `placeholder:"N" help:"Default limit of model calls for a run of a root; agents can override it. 100 if unset."`
	MaxIterationsSub *int `placeholder:"N" help:"Default limit of model calls for a run of a sub-agent; agents and calls can override it. 50 if unset."`

	RunTimeout time.Duration `default:"0" placeholder:"DURATION" help:"Default limit for the time that a run is with workers in total, for example 30m; agents and calls can override it. 0 means no limit."`
}

// limits returns the limits of sessions.
func (f runLimitFlags) limits() (*tree.Limits, error) {
	limits := tree.DefaultLimits()
	if f.RunTimeout < 0 {
		return nil, usagef("--run-timeout %s is negative", f.RunTimeout)
	}
	limits.RunTimeout = f.RunTimeout
	for _, said := range []struct {
		flag   string
		value  *int
		allows *int
	}{
		{"--max-iterations", f.MaxIterations, &limits.RootIterations},
		{"--max-iterations-sub", f.MaxIterationsSub, &limits.SubIterations},
	} {
		if said.value == nil {
			continue
		}
		if *said.value < 1 {
			return nil, usagef("%s is %d; it has to be 1 or more", said.flag, *said.value)
		}
		*said.allows = *said.value
	}
	return &limits, nil
}
