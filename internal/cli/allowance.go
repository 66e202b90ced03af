package cli

import "github.com/coppice-run/coppice/internal/tree"

// allowanceFlags say how many model calls the runs of an installation in this process may make.
type allowanceFlags struct {
	MaxIterations    *int `placeholder:"N" help:"Model calls of a root's run, unless its agent says otherwise; by default 100."`
	MaxIterationsSub *int `placeholder:"N" help:"Model calls of a sub-agent's run, unless its agent or the call says otherwise; by default 50."`
}

// limits are those that sessions have with them.
func (f allowanceFlags) limits() (*tree.Limits, error) {
	limits := tree.DefaultLimits()
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
