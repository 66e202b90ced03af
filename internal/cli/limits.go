package cli

import (
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// allowanceFlags say how many model calls the runs of an installation in this process may make,
// and how long they may take.
type runLimitFlags struct {
	MaxIterations    *int `placeholder:"N" help:"Model calls of a root's run, unless its agent says otherwise; by default 100."`
	MaxIterationsSub *int `placeholder:"N" help:"Model calls of a sub-agent's run, unless its agent or the call says otherwise; by default 50."`

	RunTimeout time.Duration `default:"0" placeholder:"DURATION" help:"How long a run may be at work in all, unless its agent or the call says otherwise, like 30m; 0 is for ever."`
}

// limits are those that sessions have with them.
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
