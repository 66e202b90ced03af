package upstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the longest time to be left alone that is believed.
const maxRetryAfter = 24 * time.Hour

// retryAfter is how long an answer asks to be left alone; 0 if it does not say, or
// says what makes no sense. The standard header holds seconds, of which some
// providers give fractions, or a date; retry-after-ms is finer, where it is sent.
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
	case !(d > 0): // also what is no number
		return 0
	case d > float64(maxRetryAfter):
		return maxRetryAfter
	}
	return time.Duration(d)
}
