package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	killedVariable = "COPPICE_TEST_KILLED"
	killedCount    = 10 // commands under way
)

// TestNothingSurvivesTheWorker kills workers, which then end nothing themselves.
func TestNothingSurvivesTheWorker(t *testing.T) {
	t.Parallel()
	for _, k := range workerKinds {
		t.Run(fmt.Sprintf("%d %s %s", k.uid, k.mode, k.by), func(t *testing.T) {
			t.Parallel()
			needUser(t, k.uid)
			marker := fmt.Sprintf("7%d%d", os.Getpid(), time.Now().UnixNano()%1e9)
			cmd := asUser(t, k.uid, "^TestWorkerThatIsKilled$", fmt.Sprintf("%s=%s,%s,%s", killedVariable, k.mode, k.by, marker))
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "ready"; {
				fmt.Fprintln(&said, lines.Text())
			}
			homes := func() []string {
				found, err := filepath.Glob(filepath.Join(variable(cmd.Env, "TMPDIR"), "coppice-command-*"))
				if err != nil {
					t.Fatal(err)
				}
				return found
			}
			alive, made := len(marked(marker)), len(homes())
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			if alive < killedCount {
				t.Fatalf("of %d commands %d were alive before the worker was killed:\n%s", killedCount, alive, said.String())
			}
			if k.by == wayNone && made < killedCount {
				t.Fatalf("of %d commands %d had a home before the worker was killed:\n%s", killedCount, made, said.String())
			}
			deadline := time.Now().Add(20 * time.Second)
			for len(marked(marker))+len(homes()) > 0 && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond)
			}
			if left := homes(); len(left) > 0 {
				t.Errorf("%d homes outlive the worker: %v", len(left), left)
			}
			if left := marked(marker); len(left) > 0 {
				t.Errorf("%d processes outlive the worker: %v", len(left), left)
			}
			t.Logf("%d processes of %d commands, 0 outlive the worker", alive, killedCount)
		})
	}
}

// variable gives what the last entry of an environment with a name says.
func variable(environ []string, name string) (value string) {
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// TestWorkerThatIsKilled is the worker of TestNothingSurvivesTheWorker.
func TestWorkerThatIsKilled(t *testing.T) {
	if os.Getenv(killedVariable) == "" {
		t.Log("it is for a process of its own, which TestNothingSurvivesTheWorker starts")
		return
	}
	box, rest := workerFrom(t, killedVariable)
	var g errgroup.Group
	for range killedCount {
		g.Go(func() error {
			up := &signalled{up: make(chan struct{})}
			_, err := box.Start(t.Context(), Command{
				Argv: []string{"bash", "-c", `trap '' HUP INT TERM; mkdir ~/cache && touch ~/cache/f && chmod 500 ~/cache; for i in 1 2; do setsid -f sleep $MARK >/dev/null 2>&1; done; sleep $MARK & until grep -qs "$MARK" /proc/$!/cmdline; do :; done; echo up; wait`},
				Dir:  t.TempDir(), Env: []string{"MARK=" + rest[0]}, Stdout: up,
			})
			if err == nil {
				<-up.up
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	select {} // until it is killed
}
