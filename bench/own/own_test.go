package own

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/bench/installation"
)

func TestTable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := Table(&out, []Figure{
		{"fan", installation.Embedded, "rate", "tasks/s", []float64{1234.5, 999.4, 1234567}},
		{"deep", installation.Separate, "each", "ms", []float64{1.2345}},
	})
	want := `| workload | installation | figure | value | unit |
|---|---|---|---|---|
| fan | embedded | rate | 1,234 (999 – 1,234,567) | tasks/s |
| deep | separate | each | 1.23 | ms |
`
	if err != nil || out.String() != want {
		t.Errorf("the table is, %v,\n%s\nwant\n%s", err, out.String(), want)
	}
}

func TestMiddleRate(t *testing.T) {
	t.Parallel()
	// A burst of 16 each second: that is 16 a second, although the first and the last
	// second are not like the others.
	ends := make(chan time.Time, 320)
	begin := time.Unix(1_800_000_000, 0)
	for n := range 320 {
		ends <- begin.Add(time.Duration(n/16) * time.Second)
	}
	if rate := middleRate(ends); rate != 16 {
		t.Errorf("the rate is %v a second, want 16", rate)
	}
}

func TestGist(t *testing.T) {
	t.Parallel()
	sql := "-- Reads.\nSELECT a | b,\n  c -- why\nFROM t"
	if got, want := shortSQL(sql), "SELECT a ¦ b, c FROM t"; got != want {
		t.Errorf("the gist is %q, want %q", got, want)
	}
}
