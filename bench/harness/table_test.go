package harness

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	samples := []Sample{
		{System: "asynq", Workload: FanOut, Round: 1, N: 1000, PerSecond: 12_000, CPUMicros: 900},
		{System: "asynq", Workload: FanOut, Round: 2, N: 1000, PerSecond: 14_000, CPUMicros: 900},
		{System: "asynq", Workload: FanOut, Round: 3, N: 1000, PerSecond: 13_000, CPUMicros: 900},
		{System: "asynq", Workload: FanOut, Round: 1, N: 10_000, PerSecond: 15_000, CPUMicros: 110},
		{System: "floor", Workload: FanOut, Round: 1, N: 10_000, Skipped: "too slow"},
		{System: "floor", Workload: FanOut, Round: 2, N: 10_000, Skipped: "too slow"},
		{System: "river", Skipped: "it ended"},
	}
	var out strings.Builder
	if err := Table(&out, samples, []int{1000, 10_000}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| asynq | – | – | – | 13,000 (12,000–14,000) | 15,000 | 110 | – | – | – | – |\n",
		"| floor | – | – | – | – | – | – | – | – | – | – |\n",
		"- floor, fanout of 10,000: too slow\n- river: it ended\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
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
		if got := thousands(c.number, c.digits); got != c.want {
			t.Errorf("thousands(%v, %d) = %q, want %q", c.number, c.digits, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sorted []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{1, 2}, 1.5}, {[]float64{1, 2, 9}, 2}} {
		if got := median(c.sorted); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.sorted, got, c.want)
		}
	}
}
