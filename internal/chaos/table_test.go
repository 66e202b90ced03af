//go:build chaos

package chaos_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// redelivery is the name under which it is told how long runs of a worker that
// was killed waited to be offered again.
const redelivery = "run of a killed worker offered again"

// table shows what was done and what came of it.
func (c *campaign) table() string {
	var out strings.Builder
	total := 0
	fmt.Fprintf(&out, "%-50s %8s %10s %10s\n", "fault (alone: until a run goes to a worker)", "times", "p50", "p99")
	for _, name := range slices.Sorted(maps.Keys(c.counts.of)) {
		p50, p99 := percentiles(c.back.of[name])
		fmt.Fprintf(&out, "%-50s %8d %10s %10s\n", name, c.counts.of[name], p50, p99)
		total += c.counts.of[name]
	}
	p50, p99 := percentiles(c.back.of[redelivery])
	fmt.Fprintf(&out, "%-50s %8d %10s %10s\n", redelivery, len(c.back.of[redelivery]), p50, p99)
	fmt.Fprintf(&out, "\n%d faults of %d kinds\n%s\nviolations: %d\n", total, len(c.counts.of), c.figures, c.violations)
	for _, what := range c.failed {
		fmt.Fprintf(&out, "\nfailed: %s", what)
	}
	return out.String()
}

func percentiles(all []time.Duration) (p50, p99 string) {
	if len(all) == 0 {
		return "", ""
	}
	slices.Sort(all)
	show := func(p float64) string {
		return all[int(math.Ceil(p*float64(len(all))))-1].Round(time.Millisecond).String()
	}
	return show(0.50), show(0.99)
}
