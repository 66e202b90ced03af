package loop_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// editing reads a file, adds a line to it and has a fork add another, which has not
// read it itself. Where the outcome of an edit is unknown, the model looks first.
func editing(req *model.Request) (*model.Answer, error) {
	line := "by the root\n"
	if req.Depth > 0 {
		line = "by the fork\n"
	}
	look := use("read", map[string]any{"path": "notes"})
	add := use("edit", map[string]any{"path": "notes", "old_string": "the end", "new_string": line + "the end"})
	last := req.Messages[len(req.Messages)-1]
	if last.Role == tree.RoleUser && req.Depth == 0 {
		return calls(look)
	}
	if last.Role == tree.RoleUser {
		return calls(add)
	}
	result := last.Blocks[0].(tree.ToolResult).Text
	added := strings.HasPrefix(result, "Replaced 1 occurrence") || strings.Contains(result, strings.TrimSpace(line))
	switch {
	case strings.Contains(result, "outcome unknown"):
		return calls(look)
	case strings.Contains(result, `"status":"completed"`), added && req.Depth > 0:
		return says("done")
	case added:
		return calls(task("fork", map[string]any{"fork_context": true}))
	case strings.Contains(result, "[version "):
		return calls(add)
	}
	return nil, fmt.Errorf("did not expect %q", result)
}

// TestEditsAreMadeOnce loses the worker at each request in turn. Which files were
// seen follows from the transcript, so whoever goes on need not read them again; what
// a crash cut off is looked at, and nothing is done twice.
func TestEditsAreMadeOnce(t *testing.T) {
	t.Parallel()
	play := func(lose func(int) (bool, bool)) (said string, requests int) {
		dir := t.TempDir()
		file := filepath.Join(dir, "notes")
		if err := os.WriteFile(file, []byte("the start\nthe end\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := tool.OpenWorkspace(dir)
		if err != nil {
			t.Fatal(err)
		}
		c := newCore(t, answers(editing))
		c.lose = lose
		c.prepare = func(r *loop.Run) { r.Workspace = w }
		c.must(tree.CreateSession{
			ID: tree.SessionID(c.newID()), Tenant: "t", Agent: c.agents["root"], Limits: tree.DefaultLimits(),
			Message: []tree.Block{tree.Text{Text: "go"}}, Permissions: policy.Layer{Mode: policy.ModeAcceptEdits},
		})
		c.play(t.Context())
		got, err := os.ReadFile(file)
		if want := "the start\nby the root\nby the fork\nthe end\n"; err != nil || string(got) != want {
			t.Errorf("the file holds %q, %v; want %q", got, err, want)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		return c.say(), c.requests
	}
	said, total := play(func(int) (bool, bool) { return false, false })
	if n := strings.Count(said, "call read"); n != 1 {
		t.Errorf("the file was read %d times:\n%s", n, said)
	}
	unknown := 0
	for n := 1; n <= total && !t.Failed(); n++ {
		for _, before := range []bool{true, false} {
			said, _ = play(func(i int) (bool, bool) { return i == n && before, i == n && !before })
			cut := strings.Count(said, "outcome unknown")
			unknown += cut
			if reads := strings.Count(said, "call read"); reads != 1+cut || strings.Count(said, ": completed") != 2 {
				t.Errorf("lost at request %d, before %t: %d reads\n%s", n, before, reads, said)
			}
		}
	}
	if unknown != 4 {
		t.Errorf("%d edits were cut off, want each of the two before and after it was made", unknown)
	}
}

// TestEditsAsk: in the mode default a root's edit asks, and so does a sub-agent's.
func TestEditsAsk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := tool.OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		switch turn(req) {
		case 0:
			return calls(use("write", map[string]any{"path": fmt.Sprint(req.Depth), "content": "x"}))
		case 1:
			if req.Depth == 0 {
				return calls(task("child", nil))
			}
		}
		return says("done")
	}))
	c.prepare = func(r *loop.Run) { r.Workspace = w }
	start(t, c)
	for _, file := range []string{"0", "1"} {
		open := 0
		for _, a := range c.view.Changes().Approvals {
			if a.State != tree.ApprovalOpen {
				continue
			}
			open++
			if a.Tool != "write" || a.Argument != file {
				t.Errorf("asked about %s of %q", a.Tool, a.Argument)
			}
			c.must(tree.DecideApproval{ID: a.ID, Allow: file == "0", Message: "one is enough"})
		}
		if open != 1 {
			t.Errorf("%d questions about %s", open, file)
		}
		c.play(t.Context())
	}
	said := c.say()
	for _, want := range []string{"Made the file", "APPROVAL_DENIED: one is enough", "root: completed"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "0" {
		t.Errorf("made %v, %v", left, err)
	}
}
