package harness

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/bench/figures"
)

// column is a column of the table.
type column struct {
	title  string
	of     func(Sample) bool
	figure func(Sample) float64
	digits int
}

// columns returns the columns for these fan-out sizes.
func columns(sizes []int) []column {
	all := []column{
		{"cold start, ms", is(Cold), func(s Sample) float64 { return s.Seconds * 1000 }, 0},
		{"spawn → result p50, ms", is(Spawn), func(s Sample) float64 { return s.P50Millis }, 2},
		{"p99, ms", hasP99, func(s Sample) float64 { return s.P99Millis }, 2},
	}
	for _, n := range sizes {
		of := func(s Sample) bool { return s.Workload == FanOut && s.N == n }
		all = append(all, column{fmt.Sprintf("fan-out + join of %s, /s", figures.Thousands(float64(n), 0)), of, perSecond, 0})
	}
	return append(all,
		column{"CPU of the largest, µs/task", is(largestFanOut), cpuMicros, 0},
		column{"independent, /s", is(Independent), perSecond, 0},
		column{"CPU of it, µs/task", is(Independent), cpuMicros, 0},
		column{"memory, MB", is(Memory), func(s Sample) float64 { return float64(s.Bytes) / 1e6 }, 0},
		column{"after children", is(Memory), func(s Sample) float64 { return float64(s.N) }, 0},
	)
}

// largestFanOut stands for the largest fan-out that a system has completed. CPU time has a
// resolution of 10 ms, which is too coarse for small fan-outs.
const largestFanOut Workload = "largest fan-out"

// withLargest adds copies of the samples of a system's largest fan-out, with that name.
func withLargest(samples []Sample, system string) []Sample {
	most := 0
	for _, s := range samples {
		if s.System == system && s.Workload == FanOut && s.Skipped == "" {
			most = max(most, s.N)
		}
	}
	all := slices.Clone(samples)
	for _, s := range samples {
		if s.System == system && s.Workload == FanOut && s.N == most {
			s.Workload = largestFanOut
			all = append(all, s)
		}
	}
	return all
}

func hasP99(s Sample) bool { return s.Workload == Spawn && s.P99Millis > 0 }

func is(w Workload) func(Sample) bool { return func(s Sample) bool { return s.Workload == w } }

func perSecond(s Sample) float64 { return s.PerSecond }

func cpuMicros(s Sample) float64 { return s.CPUMicros }

// Table writes the medians of the samples as a Markdown table, with minimum and maximum where
// they differ. Below it are the skipped workloads.
func Table(out io.Writer, samples []Sample, sizes []int) error {
	var lines strings.Builder
	all := columns(sizes)
	lines.WriteString("| system |")
	for _, c := range all {
		lines.WriteString(" " + c.title + " |")
	}
	lines.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for _, e := range entries {
		if !slices.ContainsFunc(samples, func(s Sample) bool { return s.System == e.name }) {
			continue
		}
		lines.WriteString("| " + e.name + " |")
		for _, c := range all {
			lines.WriteString(" " + c.cell(samples, e.name) + " |")
		}
		lines.WriteString("\n")
	}
	lines.WriteString(omissions(samples))
	_, err := io.WriteString(out, lines.String())
	return err
}

// cell returns "median (min–max)", or a dash without values. It says so if some rounds are
// missing.
func (c column) cell(samples []Sample, system string) string {
	var found []float64
	rounds, all := map[int]bool{}, 0
	for _, s := range withLargest(samples, system) {
		all = max(all, s.Round)
		if s.System == system && s.Skipped == "" && c.of(s) {
			found = append(found, c.figure(s))
			rounds[s.Round] = true
		}
	}
	if len(found) == 0 {
		return "–"
	}
	middle := figures.Thousands(figures.Median(found), c.digits)
	low, high := figures.Thousands(slices.Min(found), c.digits), figures.Thousands(slices.Max(found), c.digits)
	if low != high {
		middle = fmt.Sprintf("%s (%s–%s)", middle, low, high)
	}
	if len(rounds) < all {
		middle = fmt.Sprintf("%s, %d of %d rounds", middle, len(rounds), all)
	}
	return middle
}

// Spreads writes how long repeated fan-outs took, as a Markdown table for each of their sizes: a
// median says little of a system whose time is now short, now long.
func Spreads(out io.Writer, samples []Sample, sizes []int) error {
	var lines strings.Builder
	for _, n := range sizes {
		if n <= smallFanOut {
			lines.WriteString(spread(samples, n))
		}
	}
	_, err := io.WriteString(out, lines.String())
	return err
}

// spread is the table of fan-outs of n children, empty if there were none.
func spread(samples []Sample, n int) string {
	var lines strings.Builder
	title := fmt.Sprintf("\n| fan-out + join of %s | number | median, ms | p90, ms | slowest, ms | children of all of them, by their total time, /s |\n|---|---|---|---|---|---|\n",
		figures.Thousands(float64(n), 0))
	for _, e := range entries {
		var took []float64
		total := 0.0
		for _, s := range samples {
			if s.System == e.name && s.Workload == FanOut && s.N == n && s.Skipped == "" {
				took, total = append(took, s.Seconds*1000), total+s.Seconds
			}
		}
		if len(took) == 0 {
			continue
		}
		fmt.Fprintf(&lines, "| %s | %d | %s | %s | %s | %s |\n", e.name, len(took),
			figures.Thousands(figures.Median(took), 0), figures.Thousands(figures.Quantile(took, 0.9), 0),
			figures.Thousands(slices.Max(took), 0), figures.Thousands(float64(n*len(took))/total, 0))
	}
	if lines.Len() == 0 {
		return ""
	}
	return title + lines.String()
}

// omissions lists the workloads without a figure, once each.
func omissions(samples []Sample) string {
	var lines []string
	for _, s := range samples {
		if s.Skipped == "" {
			continue
		}
		line := fmt.Sprintf("- %s, round %d: %s", s.System, s.Round, s.Skipped)
		if s.Workload != "" {
			line = fmt.Sprintf("- %s, %s of %s: %s", s.System, s.Workload, figures.Thousands(float64(s.N), 0), s.Skipped)
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "\nLeft out:\n\n" + strings.Join(lines, "\n") + "\n"
}
