package worker

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/workspace"
)

// locked is a repository that somebody lays out files in.
func locked(t *testing.T) *workspace.Places {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	file, err := os.Create(filepath.Join(dir, ".git", "coppice-lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	places, err := workspace.New(workspace.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// TestAWorkerThatStopsFailsNoRun that still waits for its place: others go on with it.
func TestAWorkerThatStopsFailsNoRun(t *testing.T) {
	t.Parallel()
	task := tree.TaskID{1}.String()
	w := &Worker{Config: Config{Places: locked(t)}}
	stream := &sentOver{}
	_, j := lineOf(stream, nil)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	outcome := w.execute(stopped, stopped, slog.New(slog.DiscardHandler), &assignment{Assignment: &pb.Assignment{
		Task: &pb.Task{SessionId: tree.SessionID{2}.String(), Id: task, Epoch: 1}, WorktreeTaskIds: []string{task},
	}}, j)
	if outcome != loop.Lost || len(stream.sent) > 0 {
		t.Errorf("the outcome is %d, and %q was sent", outcome, stream.kinds)
	}
}
