package upstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the upper bound of a Retry-After value.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns how long a response asks the client to wait. It is 0 if the value is
// missing or invalid. The standard header contains seconds, in which some providers use
// fractions, or a date. Retry-After-Ms is more precise where a provider sends it.
func retryAfter(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(header.Get("Retry-After-Ms")), 64); err == nil {
		return clampRetryAfter(ms * float64(time.Millisecond))
	}
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return clampRetryAfter(seconds * float64(time.Second))
	}
	if date, err := http.ParseTime(text); err == nil {
		return clampRetryAfter(float64(date.Sub(now)))
	}
	return 0
}

func clampRetryAfter(d float64) time.Duration {
	switch {
	case !(d > 0): // also NaN
		return 0
	case d > float64(maxRetryAfter):
		return maxRetryAfter
	}
	return time.Duration(d)
}
