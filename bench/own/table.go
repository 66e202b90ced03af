package own

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table writes figures as Markdown: medians, and in parentheses the least and the
// greatest of several values.
func Table(w io.Writer, figures []Figure) error {
	if _, err := fmt.Fprint(w, "| workload | installation | figure | value | unit |\n|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, f := range figures {
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", f.Workload, f.Installation, f.Name, shown(f.Values), f.Unit); err != nil {
			return err
		}
	}
	return nil
}

func shown(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	sorted := slices.Sorted(slices.Values(values))
	median := number(sorted[len(sorted)/2])
	if len(sorted) == 1 {
		return median
	}
	return fmt.Sprintf("%s (%s – %s)", median, number(sorted[0]), number(sorted[len(sorted)-1]))
}

// number shows three digits that matter, and more of large numbers.
func number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return thousands(fmt.Sprintf("%.0f", v))
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

// thousands puts a comma after each three digits from the right.
func thousands(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
