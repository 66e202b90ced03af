package cli

import (
	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/tree"
)

// sessionLimits returns the limits of the sessions in this process.
func sessionLimits(f assembly.RunLimitFlags) (*tree.Limits, error) {
	switch {
	case f.RunTimeout < 0:
		return nil, usagef("--run-timeout %s is negative", f.RunTimeout)
	case f.MaxIterations < 1:
		return nil, usagef("--max-iterations is %d; it has to be 1 or more", f.MaxIterations)
	case f.MaxIterationsSub < 1:
		return nil, usagef("--max-iterations-sub is %d; it has to be 1 or more", f.MaxIterationsSub)
	}
	limits := tree.DefaultLimits()
	f.Apply(&limits)
	return &limits, nil
}
