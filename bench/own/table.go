package own

import (
	"fmt"
	"io"
	"slices"

	"github.com/coppice-run/coppice/bench/figures"
)

// Table writes figures as Markdown: medians, with the minimum and the maximum of several values
// in parentheses.
func Table(w io.Writer, all []Figure) error {
	if _, err := fmt.Fprint(w, "| workload | installation | figure | value | unit |\n|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, f := range all {
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
	median := number(figures.Median(values))
	if len(values) == 1 {
		return median
	}
	return fmt.Sprintf("%s (%s – %s)", median, number(slices.Min(values)), number(slices.Max(values)))
}

// number formats a number with three significant digits, or all digits before the decimal
// point.
func number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return figures.Thousands(v, 0)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
