package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const bombVariable = "COPPICE_TEST_BOMB"

// bomb is a chain of processes that grows at its end faster than it can be taken apart from its
// beginning. The kernel keeps it short, and it ends by itself after a while.
const bomb = `ulimit -u 300; exec perl -e '
	my $end = time + 60;
	syswrite STDOUT, "up\n";
	while (time < $end) { my $p = fork; sleep 60 if $p; select undef, undef, undef, 0.001 unless defined $p }' "$MARK"`

// TestForkBombEnds ends commands that fork while they are killed.
func TestForkBombEnds(t *testing.T) {
	t.Parallel()
	needUser(t, nobodyID)
	for _, mode := range []Mode{Off, BestEffort} {
		out, err := asUser(t, nobodyID, "^TestForkBombEndsInWorker$", fmt.Sprintf("%s=%s,", bombVariable, mode)).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the bomb has ended") {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}

// TestForkBombEndsInWorker is the worker of TestForkBombEnds.
func TestForkBombEndsInWorker(t *testing.T) {
	if os.Getenv(bombVariable) == "" {
		t.Log("it is for a process of its own, which TestForkBombEnds starts")
		return
	}
	box, _ := workerFrom(t, bombVariable)
	marker := markerOf(1)
	ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
	defer cancel()
	up := &signalled{up: make(chan struct{})}
	p, err := box.Start(ctx, Command{Argv: []string{"bash", "-c", bomb}, Dir: t.TempDir(), Env: []string{"MARK=" + marker}, Stdout: up})
	if err != nil {
		t.Fatal(err)
	}
	<-up.up
	cancel()
	err = p.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() < 0 {
		t.Errorf("the supervisor was killed before it had killed all: %v", err)
	}
	if left := marked(marker); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
	fmt.Println("the bomb has ended")
}
