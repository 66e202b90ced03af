package cli

import (
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// runLimitFlags bound the model calls and the time of runs in this process.
type runLimitFlags struct {
	MaxIterations    *int `placeholder:"N" help:"Model calls of a root's run, unless its agent says otherwise; by default 100."`
	MaxIterationsSub *int `placeholder:"N" help:"Model calls of a sub-agent's run, unless its agent or the call says otherwise; by default 50."`

	RunTimeout time.Duration `default:"0" placeholder:"DURATION" help:"How long a run may be at work in all, unless its agent or the call says otherwise, like 30m; 0 is for ever."`
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
