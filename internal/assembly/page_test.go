package assembly_test

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A line of the page, a label of one, and what says that a metric is a histogram.
var (
	sampleLine    = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	sampleLabel   = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
	histogramLine = regexp.MustCompile(`(?m)^# TYPE ([a-z_]+) histogram$`)
)

// onPage gives the metrics of ours on a page, with their labels in order; what a
// library adds to each of them is left out.
func onPage(t *testing.T, page string) map[string][]string {
	t.Helper()
	parts := map[string]string{} // of histograms
	for _, h := range histogramLine.FindAllStringSubmatch(page, -1) {
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			parts[h[1]+end] = h[1]
		}
	}
	found := map[string]map[string]bool{}
	for _, line := range sampleLine.FindAllStringSubmatch(page, -1) {
		name := line[1]
		if whole, ok := parts[name]; ok {
			name = whole
		}
		if !strings.HasPrefix(name, "coppice_") && !strings.HasPrefix(name, "gen_ai_") {
			continue
		}
		if found[name] == nil {
			found[name] = map[string]bool{}
		}
		for _, l := range sampleLabel.FindAllStringSubmatch(line[2], -1) {
			if l[1] != "le" && !strings.HasPrefix(l[1], "otel_scope_") && l[2] != "" {
				found[name][l[1]] = true
			}
		}
	}
	all := map[string][]string{}
	for name, labels := range found {
		all[name] = slices.AppendSeq([]string{}, maps.Keys(labels))
		slices.Sort(all[name])
	}
	return all
}

// sum adds the samples up whose name and labels are those of a pattern: the name, {,
// and the starts of labels with commas between them.
func sum(t *testing.T, page, pattern string) (total float64) {
	t.Helper()
	name, labels, _ := strings.Cut(pattern, "{")
	for _, line := range sampleLine.FindAllStringSubmatch(page, -1) {
		fits := line[1] == name
		for _, want := range strings.Split(labels, ",") {
			fits = fits && strings.Contains(line[2], want)
		}
		if !fits {
			continue
		}
		value, err := strconv.ParseFloat(line[3], 64)
		if err != nil {
			t.Fatalf("%s: %v", line[0], err)
		}
		total += value
	}
	return total
}
