// Package figures has what measurements need to tell of many values.
package figures

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Quantile is the value that a part of all does not exceed; nothing if there are none.
func Quantile[T cmp.Ordered](of []T, part float64) T {
	if len(of) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

// Median is the middle of values, and between the two in the middle of an even number.
func Median[T float64 | time.Duration](of []T) T {
	sorted := slices.Sorted(slices.Values(of))
	at := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[at]
	}
	return (sorted[at-1] + sorted[at]) / 2
}

// Milliseconds is a duration in them.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Microseconds is a duration in them.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Thousands writes a number with commas.
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
