package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// The test binary is also the other process: with these variables it opens the
// store, and as a writer writes to it until it is killed.
const (
	envPath  = "STORE_TEST_PATH"
	envWrite = "STORE_TEST_WRITE"
)

func TestMain(m *testing.M) {
	path := os.Getenv(envPath)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := other(context.Background(), path, os.Getenv(envWrite) != ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// other is what the other process does.
func other(ctx context.Context, path string, write bool) error {
	db, err := store.Open(ctx, store.Config{Database: path})
	if err != nil {
		return err
	}
	if !write {
		return db.Close()
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	var mu sync.Mutex
	for range 8 {
		wg.Go(func() {
			for {
				line, err := writeSome(ctx, db)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				mu.Lock()
				fmt.Println(line)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.New("the writers have ended")
}

var scout = &tree.Agent{Name: "scout", Version: "1", Mode: tree.ModeBoth}

// writeSome opens a session, spawns a task, and says what was acknowledged.
func writeSome(ctx context.Context, db *store.Store) (string, error) {
	id := newSession()
	if _, err := db.Update(ctx, id, open(id)); err != nil {
		return "", err
	}
	answer, err := db.Update(ctx, id, spawn("work"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s", id, answer.(tree.Spawned).Task), nil
}

func open(id tree.SessionID) tree.CreateSession {
	return tree.CreateSession{ID: id, Tenant: "acme", Agent: scout, Limits: tree.DefaultLimits()}
}

func spawn(prompt string) tree.SpawnTask {
	return tree.SpawnTask{Child: tree.Child{Agent: scout, AgentName: scout.Name, Prompt: prompt}}
}

// process is the test binary as the other process.
func process(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// TestSecondProcess: a database has one process, and who comes second is told
// who that is.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coppice.db")
	db, err := store.Open(t.Context(), store.Config{Database: path})
	if err != nil {
		t.Fatal(err)
	}
	out, err := process(t, envPath+"="+path).CombinedOutput()
	host, hostErr := os.Hostname()
	if hostErr != nil {
		t.Fatal(hostErr)
	}
	if holder := fmt.Sprintf("process %d on %s since ", os.Getpid(), host); err == nil || !strings.Contains(string(out), holder) {
		t.Errorf("the second process said %q (%v), not that %q holds it", out, err, holder)
	}
	if _, err := store.Open(t.Context(), store.Config{Database: path}); err == nil {
		t.Error("the same process has opened it twice")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := process(t, envPath+"="+path).CombinedOutput(); err != nil {
		t.Errorf("after the first has closed it, the second said %q (%v)", out, err)
	}
}

// TestKill: what a process acknowledged before it was killed is there, whole.
func TestKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coppice.db")
	acknowledged := map[string]string{}
	for round := 1; round <= 3; round++ {
		killed(t, path, 50*round, acknowledged)
	}
	db := running(t, store.Config{Database: path})
	for session, task := range acknowledged {
		id, err := tree.ParseID[tree.Session](session)
		if err != nil {
			t.Fatal(err)
		}
		child, err := tree.ParseID[tree.Task](task)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Task(t.Context(), id, child); err != nil {
			t.Errorf("task %s was acknowledged: %v", task, err)
		}
		checkLog(t, db, id)
	}
}

// killed lets a process write, kills it when it has acknowledged so much, and
// adds that to what was acknowledged.
func killed(t *testing.T, path string, enough int, acknowledged map[string]string) {
	t.Helper()
	cmd := process(t, envPath+"="+path, envWrite+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		session, task, whole := strings.Cut(lines.Text(), " ")
		if whole && len(task) == 36 {
			acknowledged[session] = task
		}
		if n == enough {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the writer ended with %v", err)
	}
}

// checkLog checks that a session's log has no gap and ends where it says.
func checkLog(t *testing.T, db *store.Store, id tree.SessionID) {
	t.Helper()
	_, at, _, err := db.Idle(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	last := at.NextSeq - 1
	events, err := db.Events(t.Context(), id, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(events)) != last {
		t.Errorf("session %s has %d events and is at number %d", id, len(events), last)
	}
	for i, e := range events {
		if e.GetSeq() != int64(i+1) {
			t.Errorf("event %d of session %s has number %d", i+1, id, e.GetSeq())
		}
	}
}
