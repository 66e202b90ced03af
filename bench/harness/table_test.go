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
		{System: "river", Round: 2, Skipped: "it ended"},
		{System: "dbos", Workload: Spawn, Round: 1, N: 20, P50Millis: 1},
		{System: "dbos", Workload: Spawn, Round: 2, N: 200, P50Millis: 2, P99Millis: 9},
		{System: "dbos", Workload: Spawn, Round: 3, N: 200, P50Millis: 3, P99Millis: 10},
	}
	var out strings.Builder
	if err := Table(&out, samples, []int{1000, 10_000}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| asynq | – | – | – | 13,000 (12,000–14,000) | 15,000, 1 of 3 rounds | 110, 1 of 3 rounds | – | – | – | – |\n",
		"| dbos | – | 2.00 (1.00–3.00) | 9.50 (9.00–10.00), 2 of 3 rounds | – |",
		"| floor | – | – | – | – | – | – | – | – | – | – |\n",
		"- floor, fanout of 10,000: too slow\n- river, round 2: it ended\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestSpreads(t *testing.T) {
	t.Parallel()
	var samples []Sample
	for _, seconds := range []float64{0.06, 0.06, 0.07, 0.07, 0.07, 0.07, 0.08, 0.08, 0.24, 0.30} {
		samples = append(samples, Sample{System: "river", Workload: FanOut, N: 1000, Seconds: seconds})
	}
	samples = append(samples,
		Sample{System: "river", Workload: FanOut, N: 10_000, Seconds: 9},
		Sample{System: "river", Workload: Spawn, N: 1000, Seconds: 9},
		Sample{System: "dbos", Workload: FanOut, N: 1000, Skipped: "too slow"})
	var out strings.Builder
	if err := Spreads(&out, samples, []int{100, 1000, 10_000}); err != nil {
		t.Fatal(err)
	}
	// There was no fan-out of 100, and that of 10,000 is not repeated.
	title, rows, _ := strings.Cut(out.String(), "|---|---|---|---|---|---|\n")
	if want := "| river | 10 | 70 | 240 | 300 | 9,091 |\n"; rows != want || !strings.Contains(title, "of 1,000 |") {
		t.Errorf("got %q and %q, want %q", title, rows, want)
	}
}
