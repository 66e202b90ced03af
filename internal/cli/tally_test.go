package cli

import (
	"strings"
	"testing"
	"time"
)

// TestASummarySaysWhoseTimeItGives where its other figures are of more.
func TestASummarySaysWhoseTimeItGives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		run      int32
		branched bool
		want     string
	}{
		{1, false, "tokens; 5.0s"},
		{3, false, "tokens; run 3: 5.0s"},
		{1, true, "tokens; root: 5.0s"},
		{3, true, "tokens; root, run 3: 5.0s"},
	} {
		f := newForest()
		root := f.find("r")
		f.attach(root, "")
		root.run, root.start, root.end = c.run, zero, zero.Add(5*time.Second)
		other := f.find("b")
		other.branch = c.branched
		f.attach(other, "r")
		if got := f.summary(zero, "; "); !strings.HasSuffix(got, c.want) {
			t.Errorf("run %d, branched %t: %s", c.run, c.branched, got)
		}
	}
}
