package figures

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	var times []time.Duration
	for n := range 100 {
		times = append(times, time.Duration(100-n))
	}
	for part, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Quantile(times, part); got != want {
			t.Errorf("of the first %v the last is %d, want %d", part, got, want)
		}
	}
	if got := Quantile([]float64{}, 0.5); got != 0 {
		t.Errorf("of nothing the half is %v", got)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{2, 1}, 1.5}, {[]float64{9, 1, 2}, 2}} {
		if got := Median(c.of); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.of, got, c.want)
		}
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number float64
		digits int
		want   string
	}{{0, 0, "0"}, {999, 0, "999"}, {1000, 0, "1,000"}, {1234567.891, 2, "1,234,567.89"}, {0.126, 2, "0.13"}} {
		if got := Thousands(c.number, c.digits); got != c.want {
			t.Errorf("Thousands(%v, %d) = %q, want %q", c.number, c.digits, got, c.want)
		}
	}
}
