// Package figures has the statistics of measurements.
package figures

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Quantile returns the value that the given part of the values does not exceed, or the zero
// value for an empty slice.
func Quantile[T cmp.Ordered](of []T, part float64) T {
	if len(of) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

// Median returns the median. For an even number of values it is the mean of the two in the
// middle.
func Median[T float64 | time.Duration](of []T) T {
	sorted := slices.Sorted(slices.Values(of))
	at := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[at]
	}
	return (sorted[at-1] + sorted[at]) / 2
}

// Milliseconds converts a duration to milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Microseconds converts a duration to microseconds.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Thousands formats a number with thousands separators.
func Thousands(f float64, digits int) string {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(f, 'f', digits, 64), ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}
