package tool

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// swap goes through steps again and again until the test has what it wants.
func swap(t *testing.T, steps ...func() error) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := steps[i%len(steps)](); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() {
		close(done)
		swapping.Wait()
	}
}

// racing is a workspace in which "link" leads inside and outside by turns, and "mid" is
// by turns a directory and a link that leads outside.
func racing(t *testing.T) (*Workspace, func()) {
	t.Helper()
	w := setup(t, "real/secret", "fine\n", "mid/deep/secret", "fine\n")
	write(t, filepath.Join(filepath.Dir(w.Dir()), "away/deep/secret"), secret)
	at := func(name string) string { return filepath.Join(w.Dir(), name) }
	must(t, os.Symlink("real", at("link")))
	must(t, os.Symlink("../away", at("mid-link")))
	to := func(target string) func() error {
		return func() error {
			if err := os.Symlink(target, at("next")); err != nil {
				return err
			}
			return os.Rename(at("next"), at("link"))
		}
	}
	exchange := func() error { // at once: a tool that writes never finds nothing there
		return unix.Renameat2(unix.AT_FDCWD, at("mid"), unix.AT_FDCWD, at("mid-link"), unix.RENAME_EXCHANGE)
	}
	stopLink := swap(t, to("../away"), to("real"))
	stopMid := swap(t, exchange)
	return w, func() { stopLink(); stopMid() }
}

// TestSymlinkRaceOpens opens what is being swapped, as all tools do.
func TestSymlinkRaceOpens(t *testing.T) {
	t.Parallel()
	const workers, each = 4, 8000
	w, stop := racing(t)
	var inside, refused, outside atomic.Int64
	var opening sync.WaitGroup
	for i := range workers {
		opening.Go(func() {
			for n := range each {
				file, err := w.open([]string{"link/secret", "mid/deep/secret"}[(i+n)%2])
				if err != nil {
					refused.Add(1)
					continue
				}
				text, err := io.ReadAll(file)
				if err := file.Close(); err != nil {
					t.Error(err)
				}
				if err == nil && string(text) == "fine\n" {
					inside.Add(1)
				} else {
					outside.Add(1)
				}
			}
		})
	}
	opening.Wait()
	stop()
	if outside.Load() > 0 || inside.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d opens gave something else, %d what is inside, %d were refused", outside.Load(), inside.Load(), refused.Load())
	}
	t.Logf("%d opens of links that are being swapped: %d inside, %d refused, %d got out", workers*each, inside.Load(), refused.Load(), outside.Load())
}

// TestSymlinkRaceTools does it with every tool, those that write among them.
func TestSymlinkRaceTools(t *testing.T) {
	t.Parallel()
	w, stop := racing(t)
	parent := filepath.Dir(w.Dir())
	before := everything(t, filepath.Join(parent, "away"))
	calls, refused, got := 0, 0, 0
	judge := func(said Done) {
		calls++
		if said.IsError {
			refused++
		}
		if strings.Contains(said.Text, secret) {
			got++
			t.Errorf("got out: %+v", said)
		}
	}
	for i := range 400 {
		for _, at := range []string{"link", "mid/deep"} {
			judge(call(t, w, "read", fmt.Sprintf(`{"path":%q}`, at+"/secret")))
			judge(call(t, w, "grep", fmt.Sprintf(`{"pattern":".","path":%q,"output_mode":"content"}`, at)))
			judge(call(t, w, "grep", fmt.Sprintf(`{"pattern":".","path":%q,"output_mode":"content"}`, at+"/secret")))
			judge(call(t, w, "ls", fmt.Sprintf(`{"path":%q}`, at)))
			judge(call(t, w, "glob", fmt.Sprintf(`{"pattern":"**","path":%q}`, at)))
			for _, part := range w.contextParts(context.WithoutCancel(t.Context()), "", []string{at + "/secret"}) {
				judge(Done{Text: part})
			}
			for name, input := range map[string]string{
				"write": fmt.Sprintf(`{"path":%q,"content":"x"}`, fmt.Sprintf("%s/new-%d", at, i%10)),
				"edit":  fmt.Sprintf(`{"path":%q,"old_string":"secret","new_string":"x"}`, at+"/secret"),
			} {
				tool, _ := Lookup(Builtin(), name)
				judge(tool.Call(t.Context(), Call{Input: []byte(input), Workspace: w, Past: seenBefore(at + "/secret")}).(Done))
			}
		}
	}
	stop()
	if after := everything(t, filepath.Join(parent, "away")); after != before {
		t.Errorf("outside was\n%s\nis\n%s", before, after)
	}
	for _, name := range []string{"secret", "away/secret", "away/deep/secret"} {
		if text, err := os.ReadFile(filepath.Join(parent, name)); err != nil || string(text) != secret {
			t.Errorf("%s holds %q, %v", name, text, err)
		}
	}
	t.Logf("%d calls, %d of them errors: %d got out", calls, refused, got)
}
