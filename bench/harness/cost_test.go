package harness

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	// A program may call itself anything.
	p, err := parse([]byte("42 (a) b ( c) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5"))
	if want := (process{pid: 42, parent: 7, cpu: time.Second}); err != nil || p != want {
		t.Errorf("parse gives %+v, %v; want %+v", p, err, want)
	}
	for _, cut := range []string{"", "42 (a", "42 (a) S 7 1"} {
		if p, err := parse([]byte(cut)); err == nil {
			t.Errorf("parse of %q gives %+v", cut, p)
		}
	}
}

func TestFamilyHasProcessesBelow(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, err := family([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found, func(p process) bool { return p.pid == cmd.Process.Pid && p.parent == os.Getpid() }) {
		t.Errorf("the child %d is not among %+v", cmd.Process.Pid, found)
	}
	alone, err := resident([]int{cmd.Process.Pid})
	if err != nil || alone <= 0 {
		t.Errorf("the child has %d bytes, %v", alone, err)
	}
	both, err := resident([]int{os.Getpid()})
	if err != nil || both <= alone {
		t.Errorf("both have %d bytes, %v; the child has %d", both, err, alone)
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var latencies []time.Duration
	for ms := 100; ms > 0; ms-- {
		latencies = append(latencies, time.Duration(ms)*time.Millisecond)
	}
	if p50, p99 := percentile(latencies, 0.50), percentile(latencies, 0.99); p50 != 50 || p99 != 99 {
		t.Errorf("p50 and p99 of 1 to 100 ms are %v and %v", p50, p99)
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("the percentile of nothing is %v", got)
	}
}
