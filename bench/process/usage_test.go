package process

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
	if want := (stat{pid: 42, parent: 7, cpu: time.Second}); err != nil || p != want {
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
	found, err := processTree([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found, func(p stat) bool { return p.pid == cmd.Process.Pid && p.parent == os.Getpid() }) {
		t.Errorf("the child %d is not among %+v", cmd.Process.Pid, found)
	}
	alone, err := Memory(cmd.Process.Pid)
	if err != nil || alone <= 0 {
		t.Errorf("the child has %d bytes, %v", alone, err)
	}
	both, err := Memory(os.Getpid())
	if err != nil || both <= alone {
		t.Errorf("both have %d bytes, %v; the child has %d", both, err, alone)
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if used, err := CPU(cmd.Process.Pid); err == nil {
		t.Errorf("the child that has ended has used %v", used)
	}
}
